// Package builder makes API objects for tests and simulations in few words. What
// is not said is filled with the value that the API server would default it to.
package builder
