// Package apiversions lets everything else work with resource.k8s.io/v1, whatever
// version of that API the server has.
//
// v1 is the hub. A client set from Connect offers ResourceV1() on every server: where
// the server has only an older version of a resource, requests and answers are
// converted here, one resource after the other, because not all of them came at the
// same time (DeviceTaintRules were in alpha when ResourceClaims were in v1). Informers
// and reflectors that are built on that client set need not know. A server that has v1
// of everything is used through the ordinary client set, at no cost; if it is replaced by
// an older one, the scheduler has to be started again.
//
// What a server has is found out by discovery when the client set is made, and again
// when a request tells that the version is gone, when a watch of an older version is
// opened, and from time to time while something is in no version there. So it is
// noticed when a server is upgraded underneath. Requests that find no version at that moment
// fail with 503, not with 404: nobody may take an object for gone. See Served.
//
// A resource that the server has in no version is empty: lists return nothing and
// watches stay silent until it appears. Otherwise informers would wait for it for ever,
// and pods that need none of it with them.
//
// # What an older version cannot hold
//
// Conversion from an older version to v1 loses nothing. In the other direction, the
// types of 1.37 know v1beta1 and v1beta2 with all the fields of v1, but an older server
// drops those that it does not know. v1alpha3 has types of its own, and conversion drops
// what they do not have; the bytes of opaque parameters need some care, see exactClaims.
// Whoever writes has to compare the answer with what was sent, as package commit does.
// What is written elsewhere is in limits.go.
//
// # What v1 cannot hold
//
// Claims and classes of the alpha versions have fields that v1 has not. In memory, objects
// of the hub have them in an annotation, see hub.AlphaClaim and hub.AlphaClass; no server ever gets
// it. With status.deallocationRequested a claim gets no new consumer. In Kubernetes 1.31,
// spec.suitableNodes of a class is for claims that a controller allocates; schedulers that
// allocate ignore it. The results of an allocation in 1.31 do not say that access is
// administrative, so conversion looks at their requests: otherwise such an allocation would
// keep others from the devices.
//
// In v1alpha2, what a claim asks for is in other objects, which may come and change later.
// Package v1alpha2 has how that is solved; a Resolver follows these objects.
package apiversions
