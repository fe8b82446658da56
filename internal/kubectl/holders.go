package kubectl

import (
	"context"
	"fmt"
	"strings"

	"github.com/spf13/cobra"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	devicefacts "github.com/quartermaster-dra/quartermaster/internal/kubectl/facts"
	"github.com/quartermaster-dra/quartermaster/pkg/whatif"
)

// holdersOutput is the JSON of holders.
type holdersOutput struct {
	metav1.TypeMeta `json:",inline"`
	// Problems is set if the user named no object.
	Problems *devicefacts.Problems `json:"problems,omitempty"`
	Pods     []podOutput           `json:"pods,omitempty"`
	Claims   []devicefacts.Claim   `json:"claims,omitempty"`
	Devices  []devicefacts.Device  `json:"devices,omitempty"`
	Missing  []whatif.Missing      `json:"missing,omitempty"`
}

// podOutput is a pod with its claims.
type podOutput struct {
	Namespace string              `json:"namespace"`
	Name      string              `json:"name"`
	Node      string              `json:"node,omitempty"`
	Phase     string              `json:"phase,omitempty"`
	Claims    []devicefacts.Claim `json:"claims,omitempty"`
}

func newHolders(o *options) *cobra.Command {
	return &cobra.Command{
		Use:   "holders [CLAIM | POD | DEVICE]",
		Short: "Show who holds which devices, and what is wrong",
		Long: `Show the devices of a claim or pod, or the claims and pods that hold a device.

Name a claim or pod as NAME or NAMESPACE/NAME, or with its kind: claim/NAME, pod/NAME, claim/NAMESPACE/NAME. Name a
device as DRIVER/POOL/DEVICE, or as POOL/DEVICE if only one device has that name.

Without an argument: inconsistencies, and the number of devices that each namespace holds (-o wide lists each
claim). Inconsistencies are allocated claims that no pod uses, devices held twice, counters and capacities with
more in use than published, held devices that are no longer published, and incomplete pools.`,
		Example: `  # Which devices does each namespace hold, and is anything wrong?
  kubectl devices holders

  # Which devices does a pod hold?
  kubectl devices holders pod/train-0

  # Which claims and pods hold a device?
  kubectl devices holders gpu.example.com/node-1/gpu-0`,
		Args:              atMostOne,
		ValidArgsFunction: o.argument(o.claimNames, o.podNames, o.deviceNames),
		RunE: func(command *cobra.Command, args []string) error {
			facts, err := o.facts(command.Context())
			if err != nil {
				return err
			}
			if len(args) == 0 {
				return o.allHolders(facts)
			}
			return o.holdersOf(command.Context(), facts, args[0])
		},
	}
}

// holdersOf prints everything with a name: the claim, the pod and the device.
func (o *options) holdersOf(_ context.Context, facts *devicefacts.Facts, name string) error {
	found := holdersOutput{TypeMeta: kindOf("Holders"), Missing: facts.Snapshot().Missing()}
	kind, rest := kindAndName(name)
	namespace, object := o.namespace(), rest
	if before, after, qualified := strings.Cut(rest, "/"); qualified {
		namespace, object = before, after
	}
	if kind == "" || kind == "claim" {
		if claim := facts.Claim(namespace, object); claim != nil {
			found.Claims = append(found.Claims, *claim)
		}
	}
	if kind == "" || kind == "pod" {
		if pod := facts.Snapshot().Pod(namespace, object); pod != nil {
			p := podOutput{Namespace: pod.Namespace, Name: pod.Name, Node: pod.Spec.NodeName, Phase: string(pod.Status.Phase)}
			for _, claim := range facts.ClaimsOf(pod) {
				p.Claims = append(p.Claims, *claim)
			}
			found.Pods = append(found.Pods, p)
		}
	}
	if kind == "" || kind == "device" {
		devices := facts.Find(rest)
		if len(devices) > 1 {
			return ambiguous(rest, devices)
		}
		found.Devices = devices
	}
	if len(found.Claims)+len(found.Pods)+len(found.Devices) == 0 {
		return fmt.Errorf("there is no claim %s/%s, no pod of that name and no device %s, or you may not read it; "+
			"name a claim or pod as NAMESPACE/NAME, and a device as DRIVER/POOL/DEVICE", namespace, object, rest)
	}
	if done, err := o.structured(found); done {
		return err
	}
	return o.printHolders(&found)
}

// atMostOne refuses several arguments.
func atMostOne(_ *cobra.Command, args []string) error {
	if len(args) > 1 {
		return fmt.Errorf("give one claim, pod or device, not %d: %s", len(args), strings.Join(args, " "))
	}
	return nil
}

// names returns the objects as other commands take them.
func (h holdersOutput) names() []string {
	var names []string
	for i := range h.Pods {
		names = append(names, "pod/"+h.Pods[i].Namespace+"/"+h.Pods[i].Name)
	}
	for i := range h.Claims {
		names = append(names, "claim/"+h.Claims[i].Key())
	}
	return append(names, deviceNames(h.Devices)...)
}

// kindAndName splits a name of the form kind/name, with kubectl's names of kinds.
func kindAndName(name string) (kind, rest string) {
	before, after, found := strings.Cut(name, "/")
	if !found {
		return "", name
	}
	switch before {
	case "claim", "claims", "resourceclaim", "resourceclaims":
		return "claim", after
	case "pod", "pods", "po":
		return "pod", after
	case "device", "devices":
		return "device", after
	}
	return "", name
}

// namedAtMost bounds the devices that an error names.
const namedAtMost = 5

func ambiguous(name string, devices []devicefacts.Device) error {
	var names []string
	for i := range devices {
		if i == namedAtMost {
			names = append(names, fmt.Sprintf("and %d others", len(devices)-i))
			break
		}
		names = append(names, devices[i].DeviceID.String())
	}
	return fmt.Errorf("%s is the name of %s: %s; name one as DRIVER/POOL/DEVICE", name, plural(len(devices), "device"), strings.Join(names, ", "))
}

func (o *options) printHolders(found *holdersOutput) error {
	blank := func() func() {
		first := true
		return func() {
			if !first {
				o.say("")
			}
			first = false
		}
	}()
	for i := range found.Pods {
		pod := &found.Pods[i]
		blank()
		o.heading("Pod %s/%s: %s", pod.Namespace, pod.Name, joined(onNodeText(pod.Node), pod.Phase))
		if len(pod.Claims) == 0 {
			o.say("  It has no claims.")
		}
		for j := range pod.Claims {
			if err := o.printClaim(&pod.Claims[j], 2); err != nil {
				return err
			}
		}
	}
	for i := range found.Claims {
		blank()
		if err := o.printClaim(&found.Claims[i], 0); err != nil {
			return err
		}
	}
	for i := range found.Devices {
		blank()
		if err := o.printDevice(&found.Devices[i]); err != nil {
			return err
		}
	}
	return nil
}

func onNodeText(node string) string {
	if node == "" {
		return "on no node"
	}
	return "on " + node
}

// joined joins texts that are not empty.
func joined(texts ...string) string {
	var some []string
	for _, text := range texts {
		if text != "" {
			some = append(some, text)
		}
	}
	return strings.Join(some, ", ")
}
