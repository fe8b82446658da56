package simulation

import (
	"fmt"
	"hash/fnv"
	"strings"

	v1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/quartermaster-dra/quartermaster/test/builder"
)

// podPlan is a pod that will be created: the edits that make it, and their description.
type podPlan struct {
	name  string
	edits []func(*v1.Pod)
	texts []string
}

func (p *podPlan) with(edit func(*v1.Pod), format string, args ...any) {
	p.edits = append(p.edits, edit)
	p.texts = append(p.texts, fmt.Sprintf(format, args...))
}

func (p *podPlan) String() string { return p.name + ": " + strings.Join(p.texts, ", ") }

// served reports whether one of our schedulers has to place the pod.
func (p *podPlan) served() bool {
	for _, text := range p.texts {
		if text == "for the foreign scheduler" {
			return false
		}
	}
	return true
}

// create makes the pod. It can be called again: after a deletion, it creates another pod with that name.
func (p *podPlan) create(w *World) {
	pod := builder.Pod(p.name, builder.Container("c"), func(pod *v1.Pod) {
		pod.Namespace, pod.Spec.SchedulerName, pod.Spec.Priority = namespace, builder.SchedulerName, new(int32)
		pod.Spec.RestartPolicy, pod.Status.Phase = v1.RestartPolicyNever, v1.PodPending
	})
	for _, edit := range p.edits {
		edit(pod)
	}
	if name := fnv.New32(); w.slowEnds {
		_, _ = name.Write([]byte(p.name))
		if name.Sum32()%3 == 0 {
			endsSlowly(slowEnd)(pod)
		}
	}
	ignore(w.client.CoreV1().Pods(pod.Namespace).Create(w.ctx, pod, metav1.CreateOptions{}))
}

// pod adds a pod and the objects that it needs.
func (g *generator) pod() {
	p := g.newPod()
	claimed := func() {}
	switch {
	case g.has(foreign) && g.one(4):
		p.with(func(pod *v1.Pod) { pod.Spec.SchedulerName = foreign }, "for the foreign scheduler")
	case g.has(others) && g.one(3):
		p.with(func(pod *v1.Pod) { pod.Spec.SchedulerName = others }, "for the second scheduler")
	}
	switch {
	case g.has("extended resources") && g.one(3) && p.served():
		g.asks(p)
	case g.has(sharing) && g.one(2):
		g.uses(p, g.lastClaim())
	case g.one(5): // a claim that others may have as well
		g.uses(p, g.anyClaim())
	case g.one(2):
		claim, kind := fmt.Sprintf("claim-%d", g.claims), g.claimKind()
		g.claims++
		g.uses(p, claim)
		makeClaim := func() {
			g.add(g.soon(), func(w *World) { w.createClaim(claim, kind) }, "create claim %s, kind %s", claim, kind)
		}
		if g.one(4) {
			claimed = makeClaim // late
		} else {
			makeClaim()
		}
	default:
		kind := g.claimKind()
		p.with(builder.Using(builder.FromTemplate(kind)...), "template %s", kind)
	}
	if g.has(places) && g.one(2) {
		g.places(p)
	}
	if g.has(volumes) && g.one(3) && p.served() {
		g.keeps(p)
	}
	g.add(g.soon(), p.create, "create pod %s", p)
	claimed()
}

// newPod returns a pod with the fields that all pods have.
func (g *generator) newPod() *podPlan {
	p := &podPlan{name: fmt.Sprintf("pod-%d", g.pods)}
	g.pods++
	cpu := pick(g, "1", "1", "1", "12")
	p.with(func(pod *v1.Pod) { pod.Spec.Containers[0].Resources.Requests = builder.Resources("cpu", cpu) }, "%s CPU", cpu)
	if priority := pick[int32](g, 0, 0, 0, 10, 100); priority > 0 {
		p.with(func(pod *v1.Pod) { pod.Spec.Priority = &priority }, "priority %d", priority)
	}
	return p
}

func (g *generator) uses(p *podPlan, claim string) {
	p.with(builder.Using(builder.Uses(claim)...), "claim %s", claim)
}

func (w *World) deletePod(name string) {
	_ = w.client.CoreV1().Pods(namespace).Delete(w.ctx, name, metav1.DeleteOptions{})
}

// replacePod deletes a pod at once, and creates another one without claims that has its name.
func (w *World) replacePod(name string) {
	_ = w.client.CoreV1().Pods(namespace).Delete(w.ctx, name, *metav1.NewDeleteOptions(0))
	(&podPlan{name: name}).create(w)
}

// finishPod makes a pod succeed, if it runs. A pod with a claim that others may use is deleted instead: while such a pod
// has succeeded and still exists, the claim controller of Kubernetes 1.37 reserves the claim for it and releases it in
// turn without a pause.
func (w *World) finishPod(name string) {
	pod, err := w.client.CoreV1().Pods(namespace).Get(w.ctx, name, metav1.GetOptions{})
	if err != nil || pod.Spec.NodeName == "" {
		return
	}
	for i := range pod.Spec.ResourceClaims {
		if pod.Spec.ResourceClaims[i].ResourceClaimName != nil {
			_ = w.client.CoreV1().Pods(namespace).Delete(w.ctx, name, *metav1.NewDeleteOptions(0))
			return
		}
	}
	pod.Status.Phase = v1.PodSucceeded
	ignore(w.client.CoreV1().Pods(namespace).UpdateStatus(w.ctx, pod, metav1.UpdateOptions{}))
}
