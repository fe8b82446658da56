package simulation

import (
	"fmt"
	"maps"

	v1 "k8s.io/api/core/v1"
	schedulingapi "k8s.io/api/scheduling/v1beta1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	utilfeature "k8s.io/apiserver/pkg/util/feature"
	"k8s.io/kubernetes/pkg/apis/scheduling"
	"k8s.io/kubernetes/pkg/features"
	"sigs.k8s.io/scheduler-plugins/apis/scheduling/v1alpha1"

	"github.com/quartermaster-dra/quartermaster/test/builder"
	"github.com/quartermaster-dra/quartermaster/test/playground/catalogue"
)

// Themes of the two kinds of gangs: PodGroups of Kubernetes and those of scheduler-plugins.
const (
	podGroups     = "gangs of Kubernetes"
	labeledGroups = "gangs of scheduler-plugins"
)

// configure sets the feature gates of the history, and gives its world the configuration for them.
func (h *History) configure(w *World) error {
	gates := maps.Clone(catalogue.FeatureGates())
	for name := range gates {
		gates[name] = h.themes[podGroups]
	}
	gates[string(features.DRANodeAllocatableResources)] = h.themes[cpus]
	if err := utilfeature.DefaultMutableFeatureGate.SetFromMap(gates); err != nil {
		return err
	}
	w.clocks, w.slowEnds = h.themes[clocks], h.themes[slowEnds]
	var err error
	if w.configured, err = configuration(); err == nil {
		h.setArguments(&w.configured)
	}
	return err
}

// gang adds a group and its pods, mixed with other things. Some members may be too many, too few, or late.
func (g *generator) gang(kind string) {
	name, least := fmt.Sprintf("gang-%d", g.groups), 2+g.random.IntN(2)
	g.groups++
	size := least + pick(g, 0, 0, 0, 1, -1)
	priority := pick[int32](g, 0, 0, 10, 100) // of all pods of a PodGroup of Kubernetes: kube-scheduler schedules no others
	claim := ""
	if kind == podGroups && g.one(4) {
		claim = fmt.Sprintf("claim-%d", g.claims)
		g.claims++
		of := g.claimKind()
		g.add(g.soon(), func(w *World) { w.createClaim(claim, of) }, "create claim %s, kind %s", claim, of)
	}
	makeGroup := func() {
		if kind == podGroups {
			g.later(g.soon(), func(w *World) { w.createPodGroup(name, int32(least), priority, claim) }, "create PodGroup %s of at least %d with priority %d, claims: [%s]", name, least, priority, claim)
			return
		}
		g.later(g.soon(), func(w *World) { w.createLabeledGroup(name, int32(least)) }, "create PodGroup %s of scheduler-plugins, of at least %d", name, least)
	}
	late := g.one(5)
	if !late {
		makeGroup()
	}
	of := g.claimKind()
	for range size {
		p := g.newPod()
		if kind == podGroups {
			p.with(builder.InGroup(name), "of group %s", name)
			p.with(func(pod *v1.Pod) { pod.Spec.Priority = &priority }, "priority %d", priority)
			if size > least {
				// kube-scheduler places one pod after the other. A large pod takes the room of several small ones and is not left out for
				// them.
				p.with(func(pod *v1.Pod) { pod.Spec.Containers[0].Resources.Requests = builder.Resources("cpu", "1") }, "1 CPU after all")
			}
		} else {
			p.with(func(pod *v1.Pod) { pod.Labels = map[string]string{v1alpha1.PodGroupLabel: name} }, "of group %s", name)
		}
		if claim != "" {
			g.uses(p, claim)
		} else {
			p.with(builder.Using(builder.FromTemplate(of)...), "template %s", of)
		}
		g.later(g.soon(), p.create, "create pod %s", p)
	}
	if late {
		makeGroup()
	}
}

// changeGang creates or deletes a group.
func changeGang(kind string) func(*generator) {
	return func(g *generator) {
		if g.groups > 0 && g.one(5) {
			name := fmt.Sprintf("gang-%d", g.random.IntN(g.groups))
			g.add(g.soon(), func(w *World) { w.deleteGroup(name) }, "delete PodGroup %s", name)
			return
		}
		g.gang(kind)
	}
}

func (w *World) createPodGroup(name string, least, priority int32, claim string) {
	group := &schedulingapi.PodGroup{ObjectMeta: metav1.ObjectMeta{
		Name: name, Namespace: namespace, Finalizers: []string{scheduling.PodGroupProtectionFinalizer}, // as admission adds it
	}}
	group.Spec.Priority = &priority
	group.Spec.SchedulingPolicy.Gang = &schedulingapi.GangSchedulingPolicy{MinCount: least}
	if claim != "" {
		group.Spec.ResourceClaims = []schedulingapi.PodGroupResourceClaim{{Name: claim, ResourceClaimName: &claim}}
	}
	ignore(w.client.SchedulingV1beta1().PodGroups(namespace).Create(w.ctx, group, metav1.CreateOptions{}))
}

// labeledGroupsPath is the API server's path of the PodGroups of scheduler-plugins.
const labeledGroupsPath = "/apis/scheduling.x-k8s.io/v1alpha1/namespaces/" + namespace + "/podgroups"

func (w *World) createLabeledGroup(name string, least int32) {
	group := &v1alpha1.PodGroup{ObjectMeta: metav1.ObjectMeta{Name: name, Namespace: namespace}, Spec: v1alpha1.PodGroupSpec{MinMember: least}}
	_ = w.client.CoreV1().RESTClient().Post().AbsPath(labeledGroupsPath).Body(encode(group)).Do(w.ctx).Error()
}

func (w *World) deleteGroup(name string) {
	_ = w.client.SchedulingV1beta1().PodGroups(namespace).Delete(w.ctx, name, metav1.DeleteOptions{})
	_ = w.client.CoreV1().RESTClient().Delete().AbsPath(labeledGroupsPath, name).Do(w.ctx).Error()
}
