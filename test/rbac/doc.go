// Package rbac shows that the rights in manifests/base are the smallest with which
// the scheduler works. It takes away one right after the other (a verb on a
// resource, as the roles grant it) from the running scheduler and gives it an
// occasion to use the right:
//
//   - Reflectors use "list" and "watch". The test ends their watches and answers that
//     their version is too old, which happens in every cluster now and then. They then
//     list and watch again, without a streaming list, which a server need not offer. A
//     scheduler that starts without one of these rights is never ready. All resources
//     are tried together, because each has reflectors of its own.
//   - Every other right has a probe (see probes): a task of a scheduler for its users,
//     such as binding a pod, preempting another, binding a volume or authorizing
//     readers of its metrics.
//
// A right counts as needed under two conditions. Without it, the API server refuses a
// request of the scheduler for that verb on that resource, and the effect that the probe
// waits for does not happen. With it, the effect happens. A front between the scheduler
// and the API server sees the refusals. The API server must refuse nothing else, so that
// no probe fails for lack of another right. A right in the manifests without a probe
// fails the test, and so does a probe without its right in the manifests.
//
// It takes half a minute: reflectors that lack a right wait before they try again.
package rbac
