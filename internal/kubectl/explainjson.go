package kubectl

import (
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	devicefacts "github.com/quartermaster-dra/quartermaster/internal/kubectl/facts"
)

// explainOutput is the JSON of explain.
type explainOutput struct {
	metav1.TypeMeta `json:",inline"`
	// Said is the message of the pod's PodScheduled condition.
	Said string `json:"said,omitempty"`
	// Node is the pod's node, "" if the pod waits.
	Node string `json:"node,omitempty"`
	// Held says which devices the scheduler holds for the pod or its group, "" if none or if that is not known.
	Held string `json:"held,omitempty"`
	// WaitsFor lists things other than devices that the pod waits for.
	WaitsFor []string `json:"waitsFor,omitempty"`
	// Explanation says why the pod waits.
	Explanation *devicefacts.Explanation `json:"explanation,omitempty"`
	// RuledOut lists selectors that no device of the nearest node matches, with the existing values.
	RuledOut []string `json:"ruledOut,omitempty"`
	// Victims lists pods that preemption could evict, by node. With NeverPreempts, it evicts none of them.
	Victims       []victimsOutput `json:"victims,omitempty"`
	NeverPreempts bool            `json:"neverPreempts,omitempty"`
	// Why lists the allocated devices, and why the claim got these.
	Why []whyOutput `json:"why,omitempty"`
}

// victimsOutput lists pods on a node that would free enough room if they ended.
type victimsOutput struct {
	Node string   `json:"node"`
	Pods []string `json:"pods"`
}
