// Package webmap serves a page on loopback that shows the devices of a cluster: nodes as tiles, devices as
// cells, pods that wait with the reason, and what would fit.
//
//	Map        what browsers see: a snapshot as tiles, and what changed since
//	Handler    HTTP: the page, the state, server-sent events, questions
//	Follow     keeps a Map in step with a cluster
//
// It only reads. Whoever asks needs the token in the path of each request, and has to name this server as Host.
package webmap
