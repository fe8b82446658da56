package kubectl

import (
	"fmt"
	"io"
	"os"
	"slices"
	"strings"

	v1 "k8s.io/api/core/v1"
	resourceapi "k8s.io/api/resource/v1"

	"github.com/quartermaster-dra/quartermaster/internal/kubectl/files"
	"github.com/quartermaster-dra/quartermaster/pkg/whatif"
)

// readManifest reads a file in YAML or JSON; "-" is standard input. It warns about the parts that it does not
// understand.
func (o *options) readManifest(name string) (*files.File, error) {
	var input io.Reader = o.In
	if name != "-" {
		file, err := os.Open(name)
		if err != nil {
			return nil, fmt.Errorf("open the file: %w", err)
		}
		defer file.Close()
		input = file
	}
	m, err := files.Read(input, o.namespace())
	if err != nil {
		return nil, fmt.Errorf("read %s: %w", name, err)
	}
	for _, warning := range m.Warnings {
		fmt.Fprintf(o.ErrOut, "warning: %s\n", warning)
	}
	return m, nil
}

// asked returns the pods of a file (replicas of each, if that is not 0), and the world with the claims, templates and
// classes of the file. A claim that already exists counts as it is, because its spec is immutable. A pod that already
// has a node is treated as if it had none. If the file has no pods, each claim and each template gets a pod that asks
// for nothing else.
func (o *options) asked(m *files.File, replicas int, world *whatif.Snapshot) ([]*v1.Pod, *whatif.Snapshot, error) {
	workloads := m.Workloads
	if len(workloads) == 0 {
		workloads = m.Imagined(replicas > 1)
	}
	objects := whatif.Objects{Templates: m.Objects.Templates, Classes: m.Objects.Classes}
	objects.Claims = slices.DeleteFunc(slices.Clone(m.Objects.Claims), func(claim *resourceapi.ResourceClaim) bool {
		exists := world.Claim(claim.Namespace, claim.Name) != nil
		if exists {
			fmt.Fprintf(o.ErrOut, "note: claim %s exists; the existing claim counts, not the one of the file\n", whatif.Key(claim))
		}
		return exists
	})
	if len(m.Objects.Nodes)+len(m.Objects.Slices)+len(m.Objects.TaintRules) > 0 {
		fmt.Fprintln(o.ErrOut, "note: Nodes, ResourceSlices and DeviceTaintRules are for --with, and not looked at with -f")
	}
	world = world.With(objects)
	var pods []*v1.Pod
	var gone whatif.Removal
	nodes := world.Nodes()
	for i := range workloads {
		for _, pod := range workloads[i].Pods(replicas, nodes) {
			if there := world.Pod(pod.Namespace, pod.Name); there != nil && there.Spec.NodeName != "" {
				fmt.Fprintf(o.ErrOut, "note: pod %s is on %s already; the answer assumes that it is not\n", whatif.Key(pod), there.Spec.NodeName)
				gone.Pods = append(gone.Pods, whatif.Key(pod))
			}
			pods = append(pods, pod)
		}
	}
	world, err := world.Without(gone)
	if err != nil {
		return nil, nil, err
	}
	if err := checkReferences(m, pods, world); err != nil {
		return nil, nil, err
	}
	shared := slices.DeleteFunc(m.ShareClaims(pods, world.Template), func(claim *resourceapi.ResourceClaim) bool {
		return world.Claim(claim.Namespace, claim.Name) != nil
	})
	return pods, world.With(whatif.Objects{Claims: shared}), nil
}

// removal parses the values of --without: claim/…, pod/… and node/….
func (o *options) removal(names []string) (whatif.Removal, error) {
	var gone whatif.Removal
	for _, name := range names {
		if node, is := strings.CutPrefix(name, "node/"); is {
			gone.Nodes = append(gone.Nodes, node)
			continue
		}
		kind, rest := kindAndName(name)
		if !strings.Contains(rest, "/") {
			rest = o.namespace() + "/" + rest
		}
		switch kind {
		case "claim":
			gone.Claims = append(gone.Claims, rest)
		case "pod":
			gone.Pods = append(gone.Pods, rest)
		default:
			return gone, fmt.Errorf("--without %s does not say what it is; write claim/NAME, pod/NAME or node/NAME", name)
		}
	}
	return gone, nil
}
