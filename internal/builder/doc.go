// Package builder makes API objects for tests and simulations in few words. What
// is not said is filled with the value that the API server would default it to.
//
// Claims, slices and the other objects that state is kept of come as a server shows
// them, with a UID and in the namespace "default". Unsaved makes of them what a server takes.
package builder
