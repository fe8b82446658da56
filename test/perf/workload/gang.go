package workload

import metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

// Gangs describes the gangs of a case. They are created in Namespace, one after the other, when createNodes is called a second
// time; that call creates no node.
type Gangs struct {
	// Pods are templates of the pods. They are executed as by scheduler_perf, with the number of the pod among the pods of its
	// template as .Index. Each template makes an equal part of a gang, in this order. Names and PodGroup are set by the benchmark.
	Pods []string `json:"pods"`
	// Patience is the time limit for placing a gang; after it, the gang counts as given up.
	Patience metav1.Duration `json:"patience"`
}

// Gang is a gang of a workload: a number of pods that are placed together or not at all.
type Gang struct {
	// Pods is the number of pods; the PodGroup needs all of them.
	Pods int `json:"pods"`
	// OccupiedClaims is the number of claims that hold devices beforehand. It is at least that of the gang before.
	OccupiedClaims int `json:"occupiedClaims,omitempty"`
	// Repeat is the number of such gangs, placed one after the other; 1 if unset. A gang is gone before the next one is created.
	Repeat int `json:"repeat,omitempty"`
}
