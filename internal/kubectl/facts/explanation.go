package facts

import (
	"github.com/quartermaster-dra/quartermaster/pkg/allocator"
	"github.com/quartermaster-dra/quartermaster/pkg/whatif"
)

// Explanation says why a pod has no node: a whatif.Explanation as JSON.
type Explanation struct {
	Pod      string           `json:"pod"`
	Problem  string           `json:"problem,omitempty"`
	NotKnown string           `json:"notKnown,omitempty"`
	Fits     []string         `json:"fits,omitempty"`
	Groups   []NodeGroup      `json:"groups,omitempty"`
	Nearest  []whatif.Near    `json:"nearest,omitempty"`
	Missing  []whatif.Missing `json:"missing,omitempty"`
	Doubts   []string         `json:"doubts,omitempty"`
	// Unchecked lists requirements of the pod that were not checked.
	Unchecked []string `json:"unchecked,omitempty"`
}

// NodeGroup is a group of nodes with the same obstacle.
type NodeGroup struct {
	Kind   whatif.Kind `json:"kind"`
	Reason string      `json:"reason"`
	Nodes  []string    `json:"nodes"`
	// Example describes the first node, nil if devices are not the obstacle.
	Example *NodeExample `json:"example,omitempty"`
}

// NodeExample describes the devices of one node.
type NodeExample struct {
	Node   string `json:"node"`
	Reason string `json:"reason"`
	GaveUp bool   `json:"gaveUp,omitempty"`
	// Text is the example in prose.
	Text     string             `json:"text"`
	Requests []ExplainedRequest `json:"requests,omitempty"`
}

// ExplainedRequest counts the devices for a request, or for one of its alternatives.
type ExplainedRequest struct {
	Claim     string     `json:"claim"`
	Request   string     `json:"request"`
	Class     string     `json:"class"`
	Wanted    int        `json:"wanted"`
	Published int        `json:"published"`
	OfClass   int        `json:"ofClass"`
	Matching  int        `json:"matching"`
	Available int        `json:"available"`
	Obstacles []Obstacle `json:"obstacles,omitempty"`
	Shortage  string     `json:"shortage,omitempty"`
}

// Obstacle counts matching devices that are unavailable, by cause.
type Obstacle struct {
	Cause   string        `json:"cause"`
	Devices int           `json:"devices"`
	Details []string      `json:"details,omitempty"`
	Claims  []HeldDevices `json:"claims,omitempty"`
}

// HeldDevices counts the devices that a claim holds.
type HeldDevices struct {
	Claim   string `json:"claim"`
	Devices int    `json:"devices"`
}

// Explained returns an explanation as JSON.
func Explained(e *whatif.Explanation) *Explanation {
	out := &Explanation{
		Pod: e.Pod, Problem: e.Problem, NotKnown: e.NotKnown, Fits: e.Fits, Nearest: e.Nearest, Missing: e.Missing, Doubts: e.Doubts, Unchecked: e.Unchecked,
	}
	for i := range e.Groups {
		g := &e.Groups[i]
		out.Groups = append(out.Groups, NodeGroup{Kind: g.Kind, Reason: g.Reason, Nodes: g.Nodes, Example: exampleOf(g)})
	}
	return out
}

func exampleOf(g *whatif.Group) *NodeExample {
	if g.Example == nil {
		return nil
	}
	out := &NodeExample{Node: g.Example.Node, Reason: g.Example.Reason, GaveUp: g.Example.GaveUp, Text: g.InFull}
	for i := range g.Example.Claims {
		claim := &g.Example.Claims[i]
		for j := range claim.Requests {
			out.Requests = append(out.Requests, requestOf(claim.Claim, &claim.Requests[j]))
		}
	}
	return out
}

func requestOf(claim string, r *allocator.ExplainedRequest) ExplainedRequest {
	out := ExplainedRequest{
		Claim: claim, Request: r.Request, Class: r.Class, Wanted: r.Wanted, Published: r.Published, OfClass: r.OfClass, Matching: r.Matching,
		Available: r.Available, Shortage: r.Shortage,
	}
	for i := range r.Obstacles {
		obstacle := Obstacle{Cause: r.Obstacles[i].Cause.String(), Devices: r.Obstacles[i].Devices}
		for _, detail := range r.Obstacles[i].Details {
			obstacle.Details = append(obstacle.Details, detail.Name)
		}
		for _, holder := range r.Obstacles[i].Claims {
			obstacle.Claims = append(obstacle.Claims, HeldDevices{Claim: holder.Claim.Namespace + "/" + holder.Claim.Name, Devices: holder.Devices})
		}
		out.Obstacles = append(out.Obstacles, obstacle)
	}
	return out
}
