package planning

import (
	"fmt"
	"testing"

	"github.com/stretchr/testify/require"
	v1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/util/sets"

	"github.com/quartermaster-dra/quartermaster/internal/gang/domain"
	"github.com/quartermaster-dra/quartermaster/test/builder"
)

// TestShape: fields that differ between pods of a controller do not matter, fields that plugins read do.
func TestShape(t *testing.T) {
	t.Parallel()
	shape := func(change func(*v1.Pod)) string {
		p := builder.Pod("p", builder.Container("c", "cpu", "1"))
		change(p)
		return shapeOf(p, sets.New("app"))
	}
	volume := func(source v1.VolumeSource) func(*v1.Pod) {
		return func(p *v1.Pod) { p.Spec.Volumes = []v1.Volume{{Name: "v", VolumeSource: source}} }
	}
	plain := shape(func(*v1.Pod) {})
	for name, change := range map[string]func(*v1.Pod){
		"name and UID":    func(p *v1.Pod) { p.Name, p.UID = "q", "other" },
		"hostname":        func(p *v1.Pod) { p.Spec.Hostname, p.Spec.Subdomain = "p-1", "p" },
		"environment":     func(p *v1.Pod) { p.Spec.Containers[0].Env = []v1.EnvVar{{Name: "RANK", Value: "1"}} },
		"arguments":       func(p *v1.Pod) { p.Spec.Containers[0].Args = []string{"--rank=1"} },
		"label of no one": labeled("training.kubeflow.org/replica-index", "1"),
		"annotation":      func(p *v1.Pod) { p.Annotations = map[string]string{"a": "b"} },
		"token":           volume(v1.VolumeSource{Projected: &v1.ProjectedVolumeSource{}}),
		"mount":           func(p *v1.Pod) { p.Spec.Containers[0].VolumeMounts = []v1.VolumeMount{{Name: "kube-api-access-x"}} },
	} {
		require.Equal(t, plain, shape(change), name)
	}
	yes := true
	ephemeral := volume(v1.VolumeSource{Ephemeral: &v1.EphemeralVolumeSource{}})
	for name, change := range map[string]func(*v1.Pod){
		"label":            labeled("app", "x"),
		"namespace":        func(p *v1.Pod) { p.Namespace = "other" },
		"selector":         func(p *v1.Pod) { p.Spec.NodeSelector = map[string]string{"zone": "a"} },
		"affinity":         together("rack", "a"),
		"spread":           spread("rack", "a"),
		"toleration":       tolerating,
		"node":             func(p *v1.Pod) { p.Spec.NodeName = "n" },
		"claim of volume":  gone,
		"ephemeral volume": ephemeral,
		"port":             onPort(80),
		"requests":         func(p *v1.Pod) { p.Spec.Containers[0].Resources.Requests = builder.Resources("cpu", "2") },
		"of the pod":       func(p *v1.Pod) { p.Spec.Resources = &v1.ResourceRequirements{Requests: builder.Resources("cpu", "2")} },
		"overhead":         func(p *v1.Pod) { p.Spec.Overhead = builder.Resources("cpu", "2") },
		"init container":   builder.InitContainer("i", "cpu", "2"),
		"priority":         func(p *v1.Pod) { p.Spec.Priority = new(int32) },
		"host network":     func(p *v1.Pod) { p.Spec.HostNetwork = true },
		"host users":       func(p *v1.Pod) { p.Spec.HostUsers = &yes },
		"group":            builder.InGroup("g"),
		"rules": func(p *v1.Pod) {
			p.Spec.Containers[0].RestartPolicyRules = []v1.ContainerRestartRule{{Action: v1.ContainerRestartRuleActionRestartAllContainers}}
		},
		"options of mount": func(p *v1.Pod) {
			p.Spec.Containers[0].VolumeMounts = []v1.VolumeMount{{Name: "v", BindMountOptions: []string{"noexec"}}}
		},
	} {
		require.NotEqual(t, plain, shape(change), name)
	}
	require.NotEqual(t, shape(ephemeral), shape(func(p *v1.Pod) { ephemeral(p); p.Name = "q" }), "its claim has the pod's name")
}

// TestLabelsThatMatter: labels matter if any selector in the cluster or the gang uses them.
func TestLabelsThatMatter(t *testing.T) {
	t.Parallel()
	w := newWorld(t, node{})
	running := builder.Pod("running", builder.Container("c"), apart(hostname, "x"))
	running.Spec.NodeName = "n0"
	running.Spec.Affinity.PodAntiAffinity.RequiredDuringSchedulingIgnoredDuringExecution[0].LabelSelector.MatchLabels = map[string]string{"tier": "x"}
	p := w.planner()
	require.Empty(t, p.labelsThatMatter(gangOf(1, 1, domain.Wish{}).Pods))
	w.running = append(w.running, running)
	p = w.planner()
	require.ElementsMatch(t, []string{"tier", "app"}, sets.List(p.labelsThatMatter(gangOf(1, 1, domain.Wish{}, spread("rack", "a")).Pods)))
}

// BenchmarkShape measures the sorting of 1,000 pods by shape.
func BenchmarkShape(b *testing.B) {
	pods := gangOf(1000, 1000, domain.Wish{}, func(p *v1.Pod) {
		for i := range 30 {
			p.Spec.Containers[0].Env = append(p.Spec.Containers[0].Env, v1.EnvVar{Name: fmt.Sprint("VARIABLE_", i), Value: "value"})
		}
		for i := range 5 {
			p.Spec.Volumes = append(p.Spec.Volumes, v1.Volume{Name: fmt.Sprint("v", i), VolumeSource: v1.VolumeSource{ConfigMap: &v1.ConfigMapVolumeSource{}}})
		}
	}, tolerating, spread("rack", "a")).Pods
	for b.Loop() {
		shapes := sets.New[string]()
		for _, pod := range pods {
			shapes.Insert(shapeOf(pod, sets.New("app")))
		}
		if len(shapes) != 1 {
			b.Fatal("the pods are alike")
		}
	}
}
