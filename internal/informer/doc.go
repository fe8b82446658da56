// Package informer keeps something in step with an informer: an event only says which object to look at, and what counts is the
// informer's store at that moment. It orders the states of an object by their resourceVersions (KEP-5504).
package informer
