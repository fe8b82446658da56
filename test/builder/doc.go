// Package builder makes API objects for tests and simulations in few words. Fields that are not set get the API
// server's defaults.
//
// Claims, slices and other stored objects have a UID and the namespace "default", as a server returns them. Unsaved
// removes these fields for creation.
package builder
