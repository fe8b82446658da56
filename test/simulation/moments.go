package simulation

import (
	"encoding/json"
	"maps"
	"net/http"
	"path"
	"slices"
	"strings"
	"time"

	v1 "k8s.io/api/core/v1"
	resourceapi "k8s.io/api/resource/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"

	"github.com/quartermaster-dra/quartermaster/test/builder"
)

// moment is a write of a process at which something happens, once.
type moment struct {
	kind writeKind
	// left counts down the remaining writes of that kind.
	left int
	// happens is called in place of send, which passes the write to the server. It reports whether the answer arrives.
	happens func(s subject, send func()) bool
}

// writeKind is a kind of write of a scheduler.
type writeKind struct {
	name string
	is   func(r *http.Request, body []byte) bool
}

var (
	anyWrite = writeKind{"write", func(*http.Request, []byte) bool { return true }}
	// binding comes when the claims of the pod are ready for it.
	binding   = writeKind{"binding", func(r *http.Request, _ []byte) bool { return strings.HasSuffix(r.URL.Path, "/binding") }}
	reserving = writeKind{"write to the status of a claim", func(r *http.Request, _ []byte) bool {
		return strings.Contains(r.URL.Path, "/resourceclaims/") && strings.HasSuffix(r.URL.Path, "/status")
	}}
	// nominating comes for pods that are about to be bound (KEP-5278), and for preemptors.
	nominating = writeKind{"nomination", func(_ *http.Request, body []byte) bool {
		return strings.Contains(string(body), `"nominatedNodeName":"`)
	}}
	// preempting comes with the reason why the pod is not scheduled yet.
	preempting = writeKind{"nomination of a preemptor", func(r *http.Request, body []byte) bool {
		return nominating.is(r, body) && strings.Contains(string(body), `"conditions":`)
	}}
	// writeKinds are the writes at which something may happen.
	writeKinds = []writeKind{
		binding,
		{"write to a claim", func(r *http.Request, _ []byte) bool { return strings.Contains(r.URL.Path, "/resourceclaims/") }},
		reserving,
		nominating,
		preempting,
		{"eviction", func(r *http.Request, _ []byte) bool {
			return r.Method == http.MethodDelete && strings.Contains(r.URL.Path, "/pods/")
		}},
	}
)

// Await adds a moment at a later write. If the moment is nil, it removes all moments.
func (c *Connection) Await(m *moment) {
	c.mutex.Lock()
	defer c.mutex.Unlock()
	if m == nil {
		c.moments = nil
		return
	}
	c.moments = append(c.moments, m)
}

// reached returns the moment that a write has reached, nil if there is none.
func (c *Connection) reached(r *http.Request, body []byte) *moment {
	c.mutex.Lock()
	defer c.mutex.Unlock()
	if r.Method == http.MethodGet {
		return nil
	}
	var now *moment
	for _, m := range c.moments {
		if m.kind.is(r, body) {
			if m.left--; m.left <= 0 && now == nil {
				now = m
			}
		}
	}
	c.moments = slices.DeleteFunc(c.moments, func(m *moment) bool { return m == now })
	return now
}

// send passes the request to the server. The response is nil if the server has not handled it yet, and it does not arrive if something
// has happened to the process or on the way.
func (c *Connection) send(r *http.Request, body []byte) (response *http.Response, arrives bool) {
	m := c.reached(r, body)
	if m == nil {
		return c.server.serve(c, r, body), true
	}
	c.server.acts.Add(1)
	sent := make(chan *http.Response, 1)
	arrives = m.happens(c.server.subjectOf(r, body), func() { sent <- c.server.serve(c, r, body) })
	select {
	case response = <-sent:
	default:
	}
	return response, arrives
}

// subject holds the objects of a write: a pod, one of its claims, and its future node, as far as these are known.
type subject struct{ pod, claim, node string }

// subjectOf returns the subject of a write.
func (s *Server) subjectOf(r *http.Request, body []byte) (about subject) {
	s.store.mutex.Lock()
	defer s.store.mutex.Unlock()
	parts := strings.Split(r.URL.Path, "/")
	for i, part := range parts[:len(parts)-1] {
		switch part {
		case "pods":
			about.pod = parts[i+1]
		case "resourceclaims":
			about.claim = parts[i+1]
		}
	}
	var written struct {
		Target v1.ObjectReference
		Status resourceapi.ResourceClaimStatus
	}
	_ = json.Unmarshal(body, &written)
	about.node = written.Target.Name
	if a := written.Status.Allocation; a != nil && len(a.Devices.Results) > 0 && a.Devices.Results[0].Pool != fabric {
		about.node = a.Devices.Results[0].Pool // All other pools have the names of their nodes.
	}
	for _, o := range s.store.collections["/v1/pods"].sorted() {
		pod := o.typed(Resource{Version: "v1", Kind: "Pod"}).(*v1.Pod)
		for _, name := range claimsOf(pod) {
			if about.claim == "" && pod.Name == about.pod || about.pod == "" && name == about.claim {
				about.pod, about.claim = pod.Name, name
			}
		}
		if pod.Name == about.pod && about.node == "" {
			about.node = pod.Status.NominatedNodeName
		}
	}
	return about
}

// claimsOf returns the names of the claims of a pod.
func claimsOf(pod *v1.Pod) (names []string) {
	for i := range pod.Spec.ResourceClaims {
		if name := pod.Spec.ResourceClaims[i].ResourceClaimName; name != nil {
			names = append(names, *name)
		}
	}
	for _, status := range pod.Status.ResourceClaimStatuses {
		if status.ResourceClaimName != nil {
			names = append(names, *status.ResourceClaimName)
		}
	}
	return names
}

// stall makes the watches of a resource deliver nothing for a while.
func (c *Connection) stall(resource string, d time.Duration) {
	c.mutex.Lock()
	defer c.mutex.Unlock()
	c.stalled[resource] = time.Now().Add(d)
}

// cut ends the watches of a resource. What they would have delivered is lost.
func (c *Connection) cut(resource string) {
	c.mutex.Lock()
	open := slices.Collect(maps.Keys(c.watches))
	c.mutex.Unlock()
	for _, w := range open {
		if w.c.resource.Name == resource {
			w.Close()
		}
	}
}

// shutFor ends the watches of a resource, and has the server refuse others for a while.
func (c *Connection) shutFor(resource string, d time.Duration) {
	c.mutex.Lock()
	c.shut[resource] = time.Now().Add(d)
	c.mutex.Unlock()
	c.cut(resource)
}

// refuses reports whether the server refuses a watch.
func (c *Connection) refuses(r *http.Request) bool {
	c.mutex.Lock()
	defer c.mutex.Unlock()
	return r.URL.Query().Get("watch") != "" && time.Now().Before(c.shut[path.Base(r.URL.Path)])
}

// missChanges implements the step of that name.
func (w *World) missChanges(c *Connection, resource string, d time.Duration) {
	c.stall(resource, d)
	w.group.Go(func() {
		_ = pause(w.ctx, d-time.Millisecond)
		w.server.compact()
		c.cut(resource)
	})
}

// stalls returns the remaining time in which the watches of a resource deliver nothing.
func (c *Connection) stalls(resource string) time.Duration {
	c.mutex.Lock()
	defer c.mutex.Unlock()
	return time.Until(c.stalled[resource])
}

// crash makes a replica end at a write: before the write is sent, after it is stored, or while it is on its way to the server.
func (w *World) crash(replica, writes int, way string, late time.Duration) {
	if replica >= len(w.replicas) {
		return
	}
	r := w.replicas[replica]
	r.connection.Await(&moment{anyWrite, writes, w.ending(r, way, late)})
}

// The ways in which a process ends at a write.
const (
	unsent   = "before the write is sent"
	stored   = "after the server has stored it"
	onItsWay = "and the server gets it later"
)

// ending returns a moment's action that ends a process at a write.
func (w *World) ending(r *replica, way string, late time.Duration) func(subject, func()) bool {
	c, cancel := r.connection, r.cancel
	return func(_ subject, send func()) bool {
		switch way {
		case stored:
			send()
		case onItsWay:
			w.group.Go(func() {
				if pause(w.ctx, late) == nil {
					w.note("the last write of %s arrives", r.name)
					w.overlaps.Store(true)
					send()
				}
			})
		}
		c.Close()
		w.note("%s dies", r.name)
		cancel()
		return false
	}
}

// endWithShared ends a process while the binding of a pod is on its way. The pod shares its claim with a pod on a node. The node is
// then cordoned, and only the new pod can use it, which has to evict others to get all devices there.
func (g *generator) endWithShared(scheduler string, late time.Duration) {
	p := g.newPod()
	p.with(func(pod *v1.Pod) {
		priority := int32(1000)
		pod.Spec.Priority = &priority
		pod.Spec.Tolerations = []v1.Toleration{{Key: v1.TaintNodeUnschedulable, Operator: v1.TolerationOpExists}}
	}, "priority 1000, also on nodes that are cordoned")
	p.with(builder.Using(builder.FromTemplate("all")...), "template all")
	var happens func(*World, *replica) func(subject, func()) bool
	happens = func(w *World, r *replica) func(subject, func()) bool {
		c, ends := r.connection, w.ending(r, onItsWay, late)
		return func(s subject, send func()) bool {
			if !w.isUsed(s.claim) {
				c.Await(&moment{binding, 1, happens(w, r)})
				send()
				return true
			}
			w.cordon(s.node, true)
			w.afterwards(2*late, func() { w.cordon(s.node, false) })
			p.create(w)
			return ends(s, send)
		}
	}
	g.at(scheduler, binding, 1, happens, "or the first one after it of a pod that shares a claim with a pod on a node, it ends, and the server gets the binding %s later; the node is cordoned, and pod %s comes", late, p)
}

// isUsed reports whether a pod on a node uses a claim.
func (w *World) isUsed(claim string) bool {
	w.server.store.mutex.Lock()
	defer w.server.store.mutex.Unlock()
	o := w.server.store.collections["resource.k8s.io/v1/resourceclaims"].objects[types.NamespacedName{Namespace: namespace, Name: claim}]
	return o != nil && w.hasBound(o)
}

// leader returns the replica that schedules, the first one if none does.
func (w *World) leader(scheduler string) *replica {
	i := slices.IndexFunc(w.replicas, func(r *replica) bool { return r.scheduler == scheduler && r.leads.Load() })
	return w.replicas[max(i, 0)]
}

func (w *World) withdraw(node string, d time.Duration) {
	api := w.client.ResourceV1().ResourceSlices()
	list, err := api.List(w.ctx, metav1.ListOptions{})
	if err != nil {
		return
	}
	for i := range list.Items {
		slice := &list.Items[i]
		if slice.Spec.Pool.Name != node || api.Delete(w.ctx, slice.Name, metav1.DeleteOptions{}) != nil {
			continue
		}
		w.group.Go(func() {
			_ = pause(w.ctx, d)
			slice.ResourceVersion = ""
			ignore(api.Create(w.ctx, slice, metav1.CreateOptions{}))
		})
	}
}

// deleteAllClaims deletes all claims.
func (w *World) deleteAllClaims() {
	if claims, err := w.client.ResourceV1().ResourceClaims(namespace).List(w.ctx, metav1.ListOptions{}); err == nil {
		for i := range claims.Items {
			w.deleteClaim(claims.Items[i].Name)
		}
	}
}

// deleteAll deletes all pods and claims, like the deletion of a namespace.
func (w *World) deleteAll() {
	if pods, err := w.client.CoreV1().Pods(namespace).List(w.ctx, metav1.ListOptions{}); err == nil {
		for i := range pods.Items {
			w.deletePod(pods.Items[i].Name)
		}
	}
	w.deleteAllClaims()
}

// takeAway deletes the volume claim of a pod, or a class of its claim if it has no volume. It returns a kind of claims that can still
// use the devices of that claim.
func (w *World) takeAway(s subject) (kind string) {
	pod, err := w.client.CoreV1().Pods(namespace).Get(w.ctx, s.pod, metav1.GetOptions{})
	if err == nil && len(pod.Spec.Volumes) > 0 {
		volume := pod.Spec.Volumes[0].Name // The claim for it has the same name.
		w.note("volume claim %s is deleted", volume)
		_ = w.client.CoreV1().PersistentVolumeClaims(namespace).Delete(w.ctx, volume, metav1.DeleteOptions{})
		return "one"
	}
	class := "gpu"
	claim, err := w.client.ResourceV1().ResourceClaims(namespace).Get(w.ctx, s.claim, metav1.GetOptions{})
	if err == nil && claim.Spec.Devices.Requests[0].Exactly != nil {
		class = claim.Spec.Devices.Requests[0].Exactly.DeviceClassName
	}
	kind = "one"
	if class == "gpu" {
		kind = "big"
	}
	w.note("class %s is deleted", class)
	w.deleteClass(class)
	return kind
}
