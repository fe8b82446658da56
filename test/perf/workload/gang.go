package workload

import metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

// Gangs is how the gangs of a case look. They are created in Namespace, one after the other, when createNodes is called a second
// time, which creates no node.
type Gangs struct {
	// Pods are templates of the pods, as scheduler_perf executes them, with the number of the pod among those of its template as
	// .Index. Each makes an equal part of a gang, in this order; names and PodGroup are set.
	Pods []string `json:"pods"`
	// Patience is how long a gang may take to be placed before it counts as given up.
	Patience metav1.Duration `json:"patience"`
}

// Gang is a gang of a workload: so many pods that are placed together, or not at all.
type Gang struct {
	// Pods is the number of pods, all of which the PodGroup needs.
	Pods int `json:"pods"`
	// OccupiedClaims is the number of claims that hold devices by then, and not less than that of the gang before.
	OccupiedClaims int `json:"occupiedClaims,omitempty"`
	// Repeat is how often such a gang is placed; 1 if unset. Its pods are gone before the next one comes.
	Repeat int `json:"repeat,omitempty"`
}
