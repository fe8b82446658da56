// Package proxy is a bad connection to an API server: a reverse proxy that answers
// some requests with errors instead of forwarding them, cuts connections before or
// after a request took effect, delays, and repeats events of watches.
//
// Which requests and events are hit is decided at random, by the rates in Faults
// and a seed. The sequence of random numbers is the same for the same seed; which
// request meets which number depends on the order of the requests.
//
// It understands watches only in JSON. A client that asks for another encoding gets
// its events unharmed, so tests have to set the content type of their clients.
package proxy
