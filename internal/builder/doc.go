// Package builder makes API objects for tests and simulations in few words. What
// is not said is filled with the value that the API server would default it to.
//
// Claims, slices and the other objects that state is kept of come as a server shows
// them, with a UID and in the namespace "default". Whoever creates them on a server says
// in which namespace, and leaves out what is for the server to say.
package builder
