package kubectl

import (
	"regexp"
	"strings"
	"testing"
	"unicode"

	"github.com/stretchr/testify/require"
	v1 "k8s.io/api/core/v1"
	resourceapi "k8s.io/api/resource/v1"
	"k8s.io/utils/ptr"
	"sigs.k8s.io/yaml"

	"github.com/quartermaster-dra/quartermaster/pkg/whatif"
	b "github.com/quartermaster-dra/quartermaster/test/builder"
)

// evil clears the screen, sets the title, begins lines, rings, and turns text around.
const evil = "\x1b[2J\x1b]0;owned\x07\r\nerror: all is well\n\u009b31m\u202egnp\u2066\u200b"

func cel(expression string) resourceapi.DeviceSelector {
	return resourceapi.DeviceSelector{CEL: &resourceapi.CELDeviceSelector{Expression: expression}}
}

// hostile is a rack whose users write what controls terminals wherever a text can be.
func hostile() whatif.Objects {
	o := rack()
	for _, slice := range o.Slices {
		slice.Spec.Devices[0].Attributes["model"] = resourceapi.DeviceAttribute{StringValue: ptr.To(evil)}
		slice.Spec.Devices[1].Taints = []resourceapi.DeviceTaint{{Key: "k", Value: evil, Effect: resourceapi.DeviceTaintEffectNoSchedule}}
	}
	o.Nodes[1].Spec.Taints = []v1.Taint{{Key: "k", Value: evil, Effect: v1.TaintEffectNoSchedule}}
	expression := `device.attributes["gpu.example.com"].model == "` + evil + `"`
	o.Classes[0].Spec.Selectors = append(o.Classes[0].Spec.Selectors, cel(`device.attributes["`+evil+`"].model == "x"`))
	odd := b.Claim("odd", b.Request("gpu", b.Driver).Where(expression)).Obj()
	pod := b.Pod("odd", b.Using(b.Uses("odd")...))
	pod.Status.Conditions = []v1.PodCondition{{Type: v1.PodScheduled, Status: v1.ConditionFalse, Message: evil}}
	pod.Spec.SchedulerName = evil
	pod.Spec.SchedulingGates = []v1.PodSchedulingGate{{Name: evil}}
	o.Claims, o.Pods = append(o.Claims, odd), append(o.Pods, pod)
	for _, claim := range o.Claims {
		claim.Annotations = map[string]string{"a": evil}
		claim.Spec.Devices.Requests[0].Exactly.Selectors = append(claim.Spec.Devices.Requests[0].Exactly.Selectors, cel(expression))
	}
	o.Missing = []whatif.Missing{{Resource: "devicetaintrules.resource.k8s.io", Why: evil}}
	return o
}

// TestHostile: no text of a user controls the terminal, shows text in another order, or begins a line.
func TestHostile(t *testing.T) {
	colours := regexp.MustCompile("\x1b\\[[0-9]+m")
	for _, args := range []string{
		"", "list", "list --attributes model", "holders", "holders low-a", "holders gpu.example.com/node-1/gpu-0", "explain odd", "explain waits",
		"explain low-b", "explain claim/odd", "fragmentation", "waste -o wide", "-o wide", "list -o wide --attributes model", "holders -o wide", "explain odd -o wide",
		"explain odd -o json", "list -o json", "list --selector \x1b]0;", "list --cel \x1b]0;", "list -o name", "list -o jsonpath={.items}", "list -o custom-columns=A:.attributes,D:.device", "holders low-a -o name", "list --nod\x1b[2J", "no\x1b[2Jcommand", "--node \x1b[2J",
	} {
		t.Run(strings.Map(func(r rune) rune {
			if unicode.IsControl(r) {
				return '?'
			}
			return r
		}, args), func(t *testing.T) {
			text, err := runWith(t, hostile(), func(o *options) { o.screen.Color = true }, strings.Fields(args)...)
			_, said := StatusOf(err)
			text = colours.ReplaceAllString(text, "") + said
			for _, r := range text {
				require.False(t, r != '\n' && r != '\t' && (unicode.IsControl(r) || unicode.Is(unicode.Cf, r)), "%U in %q", r, text)
			}
			require.NotContains(t, "\n"+text, "\nerror: all is well", "a text of a user begins no line")
		})
	}
	world := hostile()
	world.Missing = nil
	text, err := runWith(t, world, nil, "list", "-o", "yaml")
	require.NoError(t, err)
	var list deviceList
	require.NoError(t, yaml.Unmarshal([]byte(text), &list))
	require.Equal(t, evil, *list.Items[0].Attributes["model"].StringValue, "data stays as it is")
}
