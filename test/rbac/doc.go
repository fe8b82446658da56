// Package rbac shows that the rights in manifests/base are the smallest with which
// the scheduler works. It takes away one right after the other (a verb on a
// resource, as the roles grant it) from the running scheduler and gives it an
// occasion to use the right:
//
//   - "list" and "watch" are those of reflectors. The test ends their watches and
//     tells them that their version is too old, as it happens in every cluster now and
//     then: they list and watch anew, without a streaming list, which a server need
//     not offer. A scheduler that starts without one of these rights is never ready.
//     All resources are tried together, because each has reflectors of its own.
//   - Everything else has a probe (see probes): something that a scheduler does for
//     its users, such as binding a pod, preempting another, binding a volume or telling
//     who may read its metrics.
//
// A right counts as needed if, without it, the API server refuses a request of the
// scheduler for that verb on that resource, and what the probe is about does not
// happen; and if, with it, it does. A front between the two sees the refusals. The
// API server must refuse nothing else: so a probe cannot fail for want of another
// right. A right in the manifests that has no probe fails the test, and so does a
// probe whose right is not there.
package rbac
