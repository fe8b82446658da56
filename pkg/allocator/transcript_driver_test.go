package allocator_test

import (
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/quartermaster-dra/quartermaster/pkg/allocator"
)

// aGPU is the beginning of a transcript in which claim "notebook" gets a GPU.
const aGPU = `# One GPU.

slices h100-node.json
----
2 slices, 10 devices

node h100-node-a
----
compute-domain.nvidia.com/h100-node-a: 2 devices
gpu.nvidia.com/h100-node-a: 8 devices

apply
apiVersion: resource.k8s.io/v1
kind: DeviceClass
metadata: {name: any}
---
apiVersion: resource.k8s.io/v1
kind: ResourceClaim
metadata: {name: notebook}
spec: {devices: {requests: [{name: gpu, exactly: {deviceClassName: any}}]}}
----
deviceclass/any resourceclaim/notebook

`

// TestTranscriptDriver checks that a transcript fails if it should.
func TestTranscriptDriver(t *testing.T) {
	t.Parallel()
	tests := map[string]struct {
		text string
		err  string // part of it, "" for none
	}{
		"as expected":              {aGPU + "# The end.\n", ""},
		"output is not as stated":  {aGPU + "free\n----\nnotebook holds gpu-3\n", `24: the output of "free" is not as expected`},
		"output is not stated":     {aGPU + "allocate notebook\n", `24: "allocate notebook" has no expected output`},
		"no comment at the top":    {strings.TrimPrefix(aGPU, "# One GPU.\n\n"), "begins with a comment"},
		"no command":               {"# One GPU.\n", "there is no command"},
		"unknown command":          {"# Tea.\n\nbrew tea\n----\ntea\n", "line 3: brew tea: unknown command; there are allocate, apply,"},
		"input for a command":      {"# Input.\n\nfree\nnotebook\n----\nok\n", "only apply takes input"},
		"command without output":   {"# Empty.\n\nslices\n", "output must be something"},
		"unknown field":            {strings.Replace(aGPU, "spec: {devices", "spec: {gadgets", 1), `unknown field "gadgets"`},
		"old API version":          {strings.Replace(aGPU, "resource.k8s.io/v1\n", "resource.k8s.io/v1beta1\n", 1), "must be resource.k8s.io/v1"},
		"no such claim":            {aGPU + "allocate laptop\n", "there is no claim laptop"},
		"hold without a plan":      {aGPU + "hold notebook\n", "the last allocate found nothing"},
		"free without a device":    {aGPU + "free notebook\n", "claim notebook holds nothing"},
		"no line between commands": {aGPU + "allocate notebook\nexplain\n", "only apply takes input"},
		"explain without a reason": {aGPU + "allocate notebook\n\nexplain\n", "did not fail"},
		"separator, but no output": {aGPU + "allocate notebook\n----\n", "has no expected output"},
		"feature with a typo":      {aGPU + "features +Admin\n", "not + or - and a field"},
	}
	for name, tc := range tests {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			err := runTranscript(t, tc.text)
			if tc.err == "" {
				require.NoError(t, err)
			} else {
				require.ErrorContains(t, err, tc.err)
			}
		})
	}
}

// runTranscript does with a text what TestTranscripts does with a file.
func runTranscript(t *testing.T, text string) error {
	script, err := parseTranscript(text)
	if err != nil {
		return err
	}
	actual, err := script.run(t.Context())
	if err != nil {
		return err
	}
	return script.compare(actual)
}

// TestTranscriptUpdate checks that what -update writes passes.
func TestTranscriptUpdate(t *testing.T) {
	t.Parallel()
	script, err := parseTranscript(aGPU + "allocate notebook\n----\nno idea\n")
	require.NoError(t, err)
	actual, err := script.run(t.Context())
	require.NoError(t, err)
	require.NoError(t, runTranscript(t, actual.String()))
	require.Contains(t, actual.String(), "allocate notebook\n----\nnotebook: fits on nodes")
}

// TestTranscriptCrossCheck checks that a plan which differs from upstream's fails.
func TestTranscriptCrossCheck(t *testing.T) {
	t.Parallel()
	script, err := parseTranscript(aGPU)
	require.NoError(t, err)
	w := newWorld(t.Context())
	for _, step := range append(script.steps, transcriptStep{command: "allocate notebook"}) {
		_, err := w.execute(step.command, step.input)
		require.NoError(t, err)
	}
	require.NoError(t, w.crossCheck(w.last.claims, nil, w.last.outcome, nil))
	w.last.outcome.Results[0].Devices.Results[0].Device = "channel-0"
	require.ErrorContains(t, w.crossCheck(w.last.claims, nil, w.last.outcome, nil), "differs")
	require.ErrorContains(t, w.crossCheck(w.last.claims, nil, &allocator.Outcome{InvalidPools: true}, nil), "invalid pools")
}
