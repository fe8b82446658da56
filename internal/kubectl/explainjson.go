package kubectl

import (
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/quartermaster-dra/quartermaster/pkg/allocator"
	"github.com/quartermaster-dra/quartermaster/pkg/whatif"
)

// explainOutput is the JSON of explain.
type explainOutput struct {
	metav1.TypeMeta `json:",inline"`
	// Said is the message of the pod's PodScheduled condition.
	Said string `json:"said,omitempty"`
	// Node is the pod's node, "" if the pod waits.
	Node string `json:"node,omitempty"`
	// WaitsFor lists things other than devices that the pod waits for.
	WaitsFor []string `json:"waitsFor,omitempty"`
	// Explanation says why the pod waits.
	Explanation *explanationOutput `json:"explanation,omitempty"`
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

// explanationOutput is the JSON of a whatif.Explanation.
type explanationOutput struct {
	Pod      string           `json:"pod"`
	Problem  string           `json:"problem,omitempty"`
	NotKnown string           `json:"notKnown,omitempty"`
	Fits     []string         `json:"fits,omitempty"`
	Groups   []groupOutput    `json:"groups,omitempty"`
	Nearest  []whatif.Near    `json:"nearest,omitempty"`
	Missing  []whatif.Missing `json:"missing,omitempty"`
	Doubts   []string         `json:"doubts,omitempty"`
	// Unchecked lists requirements of the pod that were not checked.
	Unchecked []string `json:"unchecked,omitempty"`
}

// groupOutput is a group of nodes with the same obstacle.
type groupOutput struct {
	Kind   whatif.Kind `json:"kind"`
	Reason string      `json:"reason"`
	Nodes  []string    `json:"nodes"`
	// Example describes the devices of the first node, nil if devices are not the obstacle.
	Example *exampleOutput `json:"example,omitempty"`
}

type exampleOutput struct {
	Node   string `json:"node"`
	Reason string `json:"reason"`
	GaveUp bool   `json:"gaveUp,omitempty"`
	// Text is the example in prose.
	Text     string          `json:"text"`
	Requests []requestOutput `json:"requests,omitempty"`
}

// requestOutput counts the devices for a request, or for one of its alternatives.
type requestOutput struct {
	Claim     string           `json:"claim"`
	Request   string           `json:"request"`
	Class     string           `json:"class"`
	Wanted    int              `json:"wanted"`
	Published int              `json:"published"`
	OfClass   int              `json:"ofClass"`
	Matching  int              `json:"matching"`
	Available int              `json:"available"`
	Obstacles []obstacleOutput `json:"obstacles,omitempty"`
	Shortage  string           `json:"shortage,omitempty"`
}

// obstacleOutput counts matching devices that are unavailable, by cause.
type obstacleOutput struct {
	Cause   string         `json:"cause"`
	Devices int            `json:"devices"`
	Details []string       `json:"details,omitempty"`
	Claims  []holderOutput `json:"claims,omitempty"`
}

type holderOutput struct {
	Claim   string `json:"claim"`
	Devices int    `json:"devices"`
}

func explained(e *whatif.Explanation) *explanationOutput {
	out := &explanationOutput{
		Pod: e.Pod, Problem: e.Problem, NotKnown: e.NotKnown, Fits: e.Fits, Nearest: e.Nearest, Missing: e.Missing, Doubts: e.Doubts, Unchecked: e.Unchecked,
	}
	for i := range e.Groups {
		g := &e.Groups[i]
		out.Groups = append(out.Groups, groupOutput{Kind: g.Kind, Reason: g.Reason, Nodes: g.Nodes, Example: exampleOf(g)})
	}
	return out
}

func exampleOf(g *whatif.Group) *exampleOutput {
	if g.Example == nil {
		return nil
	}
	out := &exampleOutput{Node: g.Example.Node, Reason: g.Example.Reason, GaveUp: g.Example.GaveUp, Text: g.InFull}
	for i := range g.Example.Claims {
		claim := &g.Example.Claims[i]
		for j := range claim.Requests {
			out.Requests = append(out.Requests, requestOf(claim.Claim, &claim.Requests[j]))
		}
	}
	return out
}

func requestOf(claim string, r *allocator.ExplainedRequest) requestOutput {
	out := requestOutput{
		Claim: claim, Request: r.Request, Class: r.Class, Wanted: r.Wanted, Published: r.Published, OfClass: r.OfClass, Matching: r.Matching,
		Available: r.Available, Shortage: r.Shortage,
	}
	for i := range r.Obstacles {
		obstacle := obstacleOutput{Cause: r.Obstacles[i].Cause.String(), Devices: r.Obstacles[i].Devices}
		for _, detail := range r.Obstacles[i].Details {
			obstacle.Details = append(obstacle.Details, detail.Name)
		}
		for _, holder := range r.Obstacles[i].Claims {
			obstacle.Claims = append(obstacle.Claims, holderOutput{Claim: holder.Claim.Namespace + "/" + holder.Claim.Name, Devices: holder.Devices})
		}
		out.Obstacles = append(out.Obstacles, obstacle)
	}
	return out
}
