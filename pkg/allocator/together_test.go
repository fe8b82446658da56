package allocator_test

import (
	"strings"
	"testing"

	"github.com/stretchr/testify/require"
	"k8s.io/dynamic-resource-allocation/structured"

	b "github.com/quartermaster-dra/quartermaster/test/builder"
)

// TestReasonThatLastsComesFirst combines a problem that waiting cures with one that it does not.
func TestReasonThatLastsComesFirst(t *testing.T) {
	one := func(name, class string) *b.ClaimBuilder { return b.Claim(name, b.Request("gpu", class)) }
	big := b.Class("big", isBig)
	const noBig = "no device matches class big"
	checkReasons(t, map[string]reasonCase{
		"a later request matches nothing": {
			cluster: nodeWith(1, gpus(1)...).withClasses(big),
			claims:  []*b.ClaimBuilder{b.Claim("gpus", b.Request("held", "gpu"), b.Request("none", "big"))},
			want:    "claim default/gpus request none: " + noBig,
		},
		"a later claim matches nothing": {
			cluster: nodeWith(1, gpus(1)...).withClasses(big),
			claims:  []*b.ClaimBuilder{one("held", "gpu"), one("none", "big")},
			want:    "claim default/none request gpu: " + noBig,
		},
		"a later request wants more than match": {
			cluster: nodeWith(2, gpus(2)...),
			claims:  []*b.ClaimBuilder{b.Claim("gpus", b.Request("held", "gpu"), b.Request("many", "gpu").Count(3))},
			want:    "claim default/gpus request many: 2 devices match: 3 asked",
		},
		"a later request meets taints": {
			cluster: nodeWith(1, b.Device("gpu-0"), tainted(1, []*b.DeviceBuilder{b.Device("bad").Attr("model", "big")})[0]).withClasses(big, b.Class("small", "!("+isBig+")")),
			claims:  []*b.ClaimBuilder{b.Claim("gpus", b.Request("held", "gpu"), b.Request("bad", "big"))},
			want:    "claim default/gpus request bad: 1 device matches: 1 asked; 0 free; 1 has a taint that is not tolerated (broken)",
		},
		"some alternatives last": {
			cluster: nodeWith(1, gpus(1)...).withClasses(big),
			claims: []*b.ClaimBuilder{b.Claim("gpus", b.FirstAvailable("any", b.Request("large", "big"), b.Request("small", "gpu")),
				b.Request("none", "big"))},
			want: "claim default/gpus request none: " + noBig,
		},
		"too few for two requests": {
			cluster: nodeWith(2, gpus(2)...),
			claims:  []*b.ClaimBuilder{b.Claim("gpus", b.Request("one", "gpu").Count(2), b.Request("two", "gpu"))},
			want:    "claim default/gpus requests one and two want 3 devices of class gpu together; 2 match",
		},
		"a constraint": {
			cluster: nodeWith(2, numbered(gpus(2), "numa", 0, 1)...),
			claims:  []*b.ClaimBuilder{wants(2).Match("gpu.example.com/numa")},
			want:    "claim train/gpus request gpu: 2 devices asked that agree on gpu.example.com/numa (matchAttribute); at most 1 could be had",
		},
		"nothing lasts": {
			cluster: nodeWith(2, gpus(2)...),
			claims:  []*b.ClaimBuilder{one("first", "gpu"), one("second", "gpu")},
			want:    "claim default/first request gpu: 2 devices match: 1 asked; 0 free; 2 held by other claims",
		},
	})
}

// TestReasonOfRequestsTogether has requests and claims that compete for devices.
func TestReasonOfRequestsTogether(t *testing.T) {
	one := func(name string) *b.ClaimBuilder { return b.Claim(name, b.Request("gpu", "gpu")) }
	many := []*b.ClaimBuilder{one("a"), one("b"), one("c"), one("d"), one("e")}
	numa := func(name, value string) *b.RequestBuilder {
		return b.Request(name, "gpu").Where(attr + ".numa == " + value)
	}
	checkReasons(t, map[string]reasonCase{
		"all claims of a pod, never": {
			cluster: nodeWith(0, gpus(4)...), claims: many,
			want: "the pod's claims want 5 devices of class gpu together; 4 match",
		},
		"all claims of a pod, not now": {
			cluster: nodeWith(1, gpus(5)...), claims: many,
			want: "the pod's claims want 5 devices of class gpu together; 5 match; 4 free; the rest held by other claims",
		},
		"some claims of a pod": {
			cluster: nodeWith(0, b.Device("gpu-0").Attr("model", "big"), b.Device("gpu-1"), b.Device("gpu-2")).withClasses(b.Class("big", isBig)),
			claims:  []*b.ClaimBuilder{b.Claim("a", b.Request("gpu", "big")), one("b"), b.Claim("c", b.Request("gpu", "big"))},
			want:    "claims default/a and default/c want 2 devices of class big together; 1 matches",
		},
		"the selectors of requests": {
			cluster: nodeWith(0, numbered(gpus(6), "numa", 0, 1, 1)...),
			claims:  []*b.ClaimBuilder{b.Claim("gpus", numa("one", "0").Count(2), b.Request("any", "gpu"), numa("two", "0"))},
			want:    "claim default/gpus requests one and two want 3 devices of class gpu together; 2 match",
		},
		"several classes": {
			cluster: nodeWith(0, gpus(3)...).withClasses(b.Class("same")),
			claims:  []*b.ClaimBuilder{b.Claim("gpus", b.Request("one", "gpu").Count(2), b.Request("two", "same").Count(2))},
			want:    "claim default/gpus requests one and two want 4 devices together; 3 match",
		},
		"taints": {
			cluster: nodeWith(0, tainted(1, gpus(3))...), claims: []*b.ClaimBuilder{wants(2), one("more")},
			want: "claims train/gpus and default/more want 3 devices of class gpu together; 3 match; at most 2 could be had; the rest have taints that are not tolerated (broken)",
		},
		"admin access takes nothing away": {
			cluster: nodeWith(0, gpus(2)...),
			claims:  []*b.ClaimBuilder{b.Claim("look", b.Request("gpu", "gpu").Count(2).Admin()), wants(2), one("more")},
			want:    "claims train/gpus and default/more want 3 devices of class gpu together; 2 match",
		},
		"alternatives that lack the same": {
			cluster: nodeWith(2, gpus(2)...).withClasses(b.Class("same"), b.Class("big", isBig)),
			claims: []*b.ClaimBuilder{b.Claim("gpus", b.FirstAvailable("gpu", b.Request("one", "gpu"), b.Request("large", "big"),
				b.Request("two", "same").Count(2)))},
			want: "claim default/gpus request gpu: no alternative fits [one: 2 devices match: 1 asked; 0 free; 2 held by other claims] [large: no device matches class big] [two: 2 devices match: 2 asked; 0 free; 2 held by other claims]",
		},
	})
}

// TestExplainedConstraintOfSeveralRequests says which request lacks what.
func TestExplainedConstraintOfSeveralRequests(t *testing.T) {
	t.Parallel()
	half := func(name, value string) *b.RequestBuilder {
		return b.Request(name, "gpu").Where(attr + ".half == " + value)
	}
	claim := b.Claim("gpus", half("left", "0"), half("right", "1")).Match("gpu.example.com/root")
	// The roots are 0, 1, 2 and 1, the halves 0, 0, 1 and 1.
	devices := numbered(numbered(gpus(4), "root", 0, 1, 2, 1), "half", 0, 0, 1, 1)
	pairHeld := nodeWith(0, devices...)
	pairHeld.held = append(pairHeld.held, heldBy("others", "p", "gpu-3"))
	lists := nodeWith(0, gpus(2)[0].Attr("root", 1).Attr("half", 0), gpus(2)[1].Attr("root", ints(1, 2)).Attr("half", 1)).
		withFeatures(without(func(f *structured.Features) { f.ListTypeAttributes = false }))
	const wanted = "claim default/gpus requests left and right: 2 devices asked that agree on gpu.example.com/root (matchAttribute); "
	for name, tc := range map[string]struct {
		cluster                  cluster
		reason, line, conclusion string
	}{
		"one is held": {
			cluster:    pairHeld,
			reason:     wanted + "no value has enough free devices for each of them",
			line:       "2 devices wanted, no value has enough available for each: too few for left with 2, too few for right with 0 and 1; if other claims had none, 1 would have enough",
			conclusion: "no value of gpu.example.com/root has enough of them for each",
		},
		"lists without the feature": {
			cluster:    lists,
			reason:     wanted + "no value has enough devices for each of them; 1 has a list as root (that needs DRAListTypeAttributes)",
			line:       "2 devices wanted, no value has enough available for each: too few for right with 1; 1 has a list as root (that needs DRAListTypeAttributes)",
			conclusion: "no value of gpu.example.com/root has enough of them for each",
		},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			explanation := tc.cluster.mustNotFit(t, claim).Explain()
			require.Equal(t, tc.reason, explanation.Reason)
			lines := strings.Split(explanation.String(), "\n")
			require.Contains(t, lines, "    matchAttribute gpu.example.com/root of requests left and right: "+tc.line)
			require.Equal(t, "  each request alone has enough available devices; "+tc.conclusion, lines[len(lines)-1])
		})
	}
}
