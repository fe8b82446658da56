// Package proxy is a bad connection to an API server: a reverse proxy that answers
// some requests with errors instead of forwarding them, cuts connections before or
// after a request took effect, delays, and repeats events of watches.
//
// Which requests and events are hit is decided at random, by the rates in Faults
// and a seed. The sequence of random numbers is the same for the same seed; which
// request meets which number depends on the order of the requests.
//
// It understands watches in JSON and in protobuf; others it refuses. It can also hide versions
// of the API, for clients that are to use an older one.
package proxy
