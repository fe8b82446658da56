// Package api lets the rest of the scheduler use resource.k8s.io/v1, whatever version of that API the server
// has.
//
// v1 is the hub. A client set from Connect offers ResourceV1() on every server: if the server has only an older
// version of a resource, requests and answers are converted. This is decided for each resource, because not all
// resources reached v1 at the same time (DeviceTaintRules were in alpha when ResourceClaims were in v1). Informers
// and reflectors on that client set need no changes. A server that has v1 of everything is used through the ordinary
// client set, at no cost; if an older server replaces it, the scheduler must be restarted.
//
// Discovery finds the server's versions: when the client set is created, when a request shows that the version is
// gone, when a watch of an older version is opened, and regularly while a resource is served in no version. So
// upgrades of the server are noticed. Requests that find no version meanwhile fail with 503, not with 404: no client
// may conclude that an object is gone. See Served.
//
// A resource that the server has in no version is empty: lists return nothing and watches stay silent until it
// appears. Otherwise informers would wait for it forever, and so would pods that do not need it.
//
// # What an older version cannot hold
//
// Conversion from an older version to v1 loses nothing. In the other direction, the types of 1.37 have v1beta1 and
// v1beta2 with all the fields of v1, but an older server drops fields that it does not know. v1alpha3 has separate
// types, and conversion drops fields that they lack; the bytes of opaque parameters need special care, see
// exactClaims. Writers must compare the answer with the object that they sent, as package commit does. Limits that
// concern other objects are in limits.go.
//
// # What v1 cannot hold
//
// Claims and classes of the alpha versions have fields that v1 lacks. In memory, objects of the hub have them in an
// annotation, see conversion.AlphaClaim and conversion.AlphaClass; no server ever gets it. With status.deallocationRequested a
// claim gets no new consumer. In Kubernetes 1.31, spec.suitableNodes of a class is for claims that a controller
// allocates; schedulers that allocate ignore it. The results of an allocation in 1.31 do not record admin access, so
// conversion takes it from their requests: otherwise such an allocation would keep other claims from the devices.
//
// In v1alpha2, the requests of a claim are in other objects, which may be created and changed later. Package v1alpha2
// resolves them; a Resolver watches these objects.
package api
