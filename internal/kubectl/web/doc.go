// Package web serves a web page on loopback that shows the devices of a cluster: nodes as tiles, devices as cells,
// waiting pods with the reason, and what would fit.
//
//	Map        the state for browsers: a snapshot as tiles, and its changes
//	Handler    HTTP: the page, the state, server-sent events, questions
//	Follow     updates a Map from a cluster
//
// It only reads. Each request needs the token in its path, and this server's address as Host.
package web
