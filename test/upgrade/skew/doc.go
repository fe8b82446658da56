// Package skew tests the scheduler and API servers that are a minor release apart. Kubernetes promises that a scheduler
// works with an API server of its own minor release and of the next one.
//
//   - The server is older: it emulates the release before (--emulated-version), so it has the APIs and the defaults of
//     gates of that. test/compat runs real servers of older releases.
//   - The scheduler is older: it emulates the release before and so has the defaults of gates of that; and it reads the API
//     through a proxy that takes fields out of objects, as code that does not know them would.
//
// What cannot be tested is our code built with the libraries of another minor release: there is no such build.
package skew
