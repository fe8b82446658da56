package kubectl

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/spf13/pflag"
	"github.com/stretchr/testify/require"
	resourceapi "k8s.io/api/resource/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/client-go/kubernetes/fake"
	clienttesting "k8s.io/client-go/testing"

	"github.com/quartermaster-dra/quartermaster/pkg/whatif"
	b "github.com/quartermaster-dra/quartermaster/test/builder"
)

// server is a fake API server with the objects, and has no rights to list some resources in all namespaces, or
// anywhere.
func server(o whatif.Objects, notEverywhere, nowhere string) *fake.Clientset {
	client := fake.NewClientset()
	add := func(object runtime.Object) { _ = client.Tracker().Add(object) }
	for _, one := range o.Nodes {
		add(one)
	}
	for _, one := range o.Slices {
		add(one)
	}
	for _, one := range o.Claims {
		add(one)
	}
	for _, one := range o.Classes {
		add(one)
	}
	for _, one := range o.TaintRules {
		add(one)
	}
	for _, one := range o.Pods {
		add(one)
	}
	client.PrependReactor("list", "*", func(action clienttesting.Action) (bool, runtime.Object, error) {
		resource := action.GetResource()
		if strings.Contains(nowhere, resource.Resource) || strings.Contains(notEverywhere, resource.Resource) && action.GetNamespace() == "" {
			return true, nil, apierrors.NewForbidden(resource.GroupResource(), "", errors.New("no"))
		}
		return false, nil, nil
	})
	return client
}

// ask runs a command on a fake server.
func ask(t *testing.T, client *fake.Clientset, args ...string) (out, errOut string, err error) {
	t.Helper()
	o, outBuffer, errBuffer := testOptions(t)
	o.connect = connectTo(client)
	root := newRoot(o)
	root.SetArgs(append([]string{}, args...))
	err = root.ExecuteContext(t.Context())
	return outBuffer.String(), errBuffer.String(), err
}

func connectTo(client *fake.Clientset) func(context.Context, *options) (*whatif.Source, error) {
	return func(context.Context, *options) (*whatif.Source, error) {
		source := whatif.FromClient(client)
		source.Namespace = b.Namespace
		return source, nil
	}
}

func TestMissingRights(t *testing.T) {
	out, errOut, err := ask(t, server(zoo(), "resourceclaims pods", "nodes devicetaintrules"))
	require.NoError(t, err)
	golden(t, "missing-some", out+errOut)
	require.Equal(t, 1, strings.Count(errOut, "\n"), "one line says what may not be read")
	require.NotContains(t, out, "research", "it cannot be known")

	out, errOut, err = ask(t, server(zoo(), "", "resourceslices"), "holders", "train-gpu")
	require.NoError(t, err, "it goes on with what it may see")
	require.Contains(t, out, "gpu.example.com/node-1/gpu-0\n")
	require.NotContains(t, out, "not published", "that is not known")
	require.Contains(t, errOut, "you may not list resourceslices: ")

	out, _, err = ask(t, server(zoo(), "", "resourceslices"))
	status, _ := StatusOf(err)
	require.Equal(t, ExitCannotTell, status)
	require.Contains(t, out, "Which devices there are is not known")

	_, errOut, err = ask(t, server(zoo(), "", "resourceslices resourceclaims"))
	require.ErrorContains(t, err, "neither ResourceSlices nor ResourceClaims")
	require.Contains(t, errOut, "you may not list resourceslices, resourceclaims: ")
	status, _ = StatusOf(err)
	require.Equal(t, ExitCannotTell, status)
}

// TestUnreachable: one error, not one for each kind of objects.
func TestUnreachable(t *testing.T) {
	kubeconfig := filepath.Join(t.TempDir(), "config")
	require.NoError(t, os.WriteFile(kubeconfig, []byte(`{"apiVersion":"v1","kind":"Config","current-context":"c",
		"clusters":[{"name":"c","cluster":{"server":"http://127.0.0.1:1"}}],"contexts":[{"name":"c","context":{"cluster":"c"}}]}`), 0o600))
	o, out, errOut := testOptions(t)
	root := newRoot(o)
	root.SetArgs([]string{"list", "--kubeconfig", kubeconfig})
	require.ErrorContains(t, root.ExecuteContext(t.Context()), "the cluster cannot be read: ")
	require.Empty(t, out.String()+errOut.String())

	client := fake.NewClientset()
	client.PrependReactor("list", "*", func(action clienttesting.Action) (bool, runtime.Object, error) {
		return action.GetResource().Group == "resource.k8s.io", nil, apierrors.NewGenericServerResponse(404, "list", action.GetResource().GroupResource(), "", "", 0, true)
	})
	_, _, err := ask(t, client)
	require.ErrorContains(t, err, "the cluster has no resource.k8s.io API")
}

// TestPodsUnknown: a pod that cannot be read is not reported as gone.
func TestPodsUnknown(t *testing.T) {
	out, _, err := ask(t, server(broken(), "", "pods"), "holders")
	require.NoError(t, err)
	require.NotContains(t, out, "was-here")
	require.Contains(t, out, "default/thief", "nobody at all has it reserved")
}

func TestMistakes(t *testing.T) {
	for args, want := range map[string]string{
		"nonsense":                    `unknown command "nonsense"`,
		"explian x":                   `unknown command "explian" for "kubectl devices". Did you mean explain?`,
		"explain":                     "name the pod or claim to explain: kubectl devices explain NAME",
		"explain a b":                 "name one pod or claim, not 2: a b",
		"-o xml":                      "output format \"xml\" does not exist; use one of wide, name, json, yaml, custom-columns",
		"--node node-99":              "there is no node node-99",
		"list --class none":           "there is no DeviceClass none",
		"list --cel device.x(":        "cannot be evaluated",
		"list -l device.x(":           "--cel for a CEL expression",
		"list everything":             `"kubectl devices list" takes no arguments, and got ["everything"]; see kubectl devices list --help`,
		"list --nod x":                `unknown flag --nod for "kubectl devices list". Did you mean --node? See kubectl devices list --help`,
		"list --contex x":             "Did you mean --context?",
		"list --selecter x":           "Did you mean --selector?",
		"list -x":                     "unknown flag -x for",
		"list --limit x":              "see kubectl devices list --help",
		"list -o jsonpath":            "write it as jsonpath=…",
		"list -o jsonpath={.items":    "cannot be used",
		"-o name":                     "use it with list or holders",
		"holders a b":                 "give one claim, pod or device, not 2: a b",
		"dump --file x":               "Did you mean --filename?",
		"list --attributes nonsense":  "none of the devices has an attribute or a capacity nonsense",
		"holders nobody":              "there is no claim default/nobody",
		"holders device/gpu-0":        "gpu-0 is the name of 4 devices: ",
		"watch":                       "a dump does not change",
		"dump --hash-names --nothing": "unknown flag",
	} {
		_, err := run(t, zoo(), strings.Fields(args)...)
		require.ErrorContains(t, err, want, args)
	}
	o, _, _ := testOptions(t)
	root := newRoot(o)
	root.SetArgs([]string{"--from", filepath.Join(t.TempDir(), "none")})
	require.ErrorContains(t, root.ExecuteContext(t.Context()), "open the dump")
}

// lockedBuffer may be written and read at the same time.
type lockedBuffer struct {
	mutex sync.Mutex
	bytes.Buffer
}

func (l *lockedBuffer) Write(p []byte) (int, error) {
	l.mutex.Lock()
	defer l.mutex.Unlock()
	return l.Buffer.Write(p)
}

func (l *lockedBuffer) String() string {
	l.mutex.Lock()
	defer l.mutex.Unlock()
	return l.Buffer.String()
}

func TestWatch(t *testing.T) {
	client := server(zoo(), "", "")
	o, _, _ := testOptions(t)
	var out, errOut lockedBuffer
	o.Out, o.ErrOut, o.connect = &out, &errOut, connectTo(client)
	root := newRoot(o)
	root.SetArgs([]string{"watch"})
	ctx, cancel := context.WithCancel(t.Context())
	defer cancel()
	ended := make(chan error, 1)
	go func() { ended <- root.ExecuteContext(ctx) }()
	require.Eventually(t, func() bool { return strings.Contains(errOut.String(), "Watching 6 claims;") }, 3*time.Minute, 10*time.Millisecond, "before anything happens")

	api := client.ResourceV1().ResourceClaims(b.Namespace)
	claim := b.Claim("waiting").Allocated("node-1", "gpu-1", "gpu-3")
	claim.Status.ReservedFor = []resourceapi.ResourceClaimConsumerReference{{Resource: "pods", Name: "one", UID: "1"}}
	update := func() {
		_, err := api.Update(ctx, claim.DeepCopy(), metav1.UpdateOptions{})
		require.NoError(t, err)
	}
	update()
	claim.Status.ReservedFor[0] = resourceapi.ResourceClaimConsumerReference{APIGroup: "scheduling.k8s.io", Resource: "podgroups", Name: "two", UID: "2"}
	update()
	claim.Labels = map[string]string{"nothing": "happens"}
	update()
	require.NoError(t, api.Delete(ctx, "waiting", metav1.DeleteOptions{}))
	want := `12:00:00  Allocated   default/waiting  gpu.example.com/node-1/gpu-1, gpu.example.com/node-1/gpu-3
12:00:00  Reserved    default/waiting  for pod one
12:00:00  Unreserved  default/waiting  for pod one
12:00:00  Reserved    default/waiting  for podgroups.scheduling.k8s.io two
12:00:00  Unreserved  default/waiting  for podgroups.scheduling.k8s.io two
12:00:00  Released    default/waiting  gpu.example.com/node-1/gpu-1, gpu.example.com/node-1/gpu-3
`
	require.Eventually(t, func() bool { return len(out.String()) >= len(want) }, 3*time.Minute, 10*time.Millisecond)
	require.Equal(t, want, out.String())
	cancel()
	require.NoError(t, <-ended)
}

func TestWatchOneNamespace(t *testing.T) {
	o, _, errOut := testOptions(t)
	client := server(zoo(), "resourceclaims", "")
	namespace, err := o.watchable(t.Context(), client, b.Namespace)
	require.NoError(t, err)
	require.Equal(t, b.Namespace, namespace)
	require.Contains(t, errOut.String(), "only those of namespace default are watched")
	_, err = o.watchable(t.Context(), server(zoo(), "", "resourceclaims"), b.Namespace)
	require.ErrorContains(t, err, "forbidden")
}

func TestCompletion(t *testing.T) {
	for args, want := range map[string]string{
		"list --node node-":          "node-1 node-10 node-2 node-3",
		"list --class ha":            "halves",
		"list --attributes model,n":  "model,numa",
		"holders tr":                 "train train-gpu",
		"holders nic.example.com/":   "nic.example.com/fabric/nic-0 nic.example.com/fabric/nic-1",
		"holders -n research half-g": "half-gpu",
		"explain nic.example.com/":   "",
		"explain half":               "",
		"explain tra":                "train train-gpu",
		"-n re":                      "research",
		"-o j":                       "json jsonpath= jsonpath-as-json= jsonpath-file=",
		"-o cus":                     "custom-columns= custom-columns-file=",
		"frag":                       "fragmentation",
		"was":                        "",
	} {
		o, out, _ := testOptions(t)
		root := newRoot(o)
		root.SetOut(out)
		root.SetErr(new(bytes.Buffer))
		root.SetArgs(append([]string{"__complete", "--from", dumped(t, zoo())}, strings.Fields(args)...))
		require.NoError(t, root.ExecuteContext(t.Context()), args)
		require.ElementsMatch(t, strings.Fields(want), completions(out.String()), args)
	}
}

// TestCompletionOfMany: those count that begin with what was typed, however many others there are.
func TestCompletionOfMany(t *testing.T) {
	var o whatif.Objects
	for i := range 3 * completionsAtMost {
		o.Nodes = append(o.Nodes, b.Node(fmt.Sprintf("a-%04d", i)))
		o.Slices = append(o.Slices, b.NodeSlice(fmt.Sprintf("a-%04d", i), b.Device("gpu")).Obj())
	}
	o.Nodes, o.Slices = append(o.Nodes, b.Node("z")), append(o.Slices, b.NodeSlice("z", b.Device("gpu")).Obj())
	client := server(o, "", "")
	paged(client)
	for args, want := range map[string][]string{
		"list --node z":              {"z"},
		"holders gpu.example.com/z/": {"gpu.example.com/z/gpu"},
	} {
		o, out, _ := testOptions(t)
		o.connect = connectTo(client)
		root := newRoot(o)
		root.SetOut(out)
		root.SetErr(new(bytes.Buffer))
		root.SetArgs(append([]string{"__complete"}, strings.Fields(args)...))
		require.NoError(t, root.ExecuteContext(t.Context()), args)
		require.Equal(t, want, completions(out.String()), args)
	}
}

// paged makes a server answer lists of nodes and slices in pages, as API servers do.
func paged(client *fake.Clientset) {
	client.PrependReactor("list", "*", func(action clienttesting.Action) (bool, runtime.Object, error) {
		limit, from := action.(clienttesting.ListActionImpl).ListOptions.Limit, action.(clienttesting.ListActionImpl).ListOptions.Continue
		all, err := client.Tracker().List(action.GetResource(), action.(clienttesting.ListActionImpl).Kind, "")
		if err != nil || limit == 0 {
			return false, nil, nil
		}
		items, err := meta.ExtractList(all)
		if err != nil {
			return true, nil, err
		}
		start, _ := strconv.Atoi(from)
		end := min(len(items), start+int(limit))
		if err := meta.SetList(all, items[start:end]); err != nil {
			return true, nil, err
		}
		if end < len(items) {
			list, _ := meta.ListAccessor(all)
			list.SetContinue(strconv.Itoa(end))
		}
		return true, all, nil
	})
}

// completions are the lines that do not belong to the protocol.
func completions(text string) (found []string) {
	for line := range strings.Lines(text) {
		if line = strings.TrimSpace(line); line != "" && !strings.HasPrefix(line, ":") && !strings.HasPrefix(line, "Completion ended") {
			name, _, _ := strings.Cut(line, "\t") // after it comes the description of a command
			found = append(found, name)
		}
	}
	return found
}

func dumped(t *testing.T, objects whatif.Objects) string {
	t.Helper()
	name := filepath.Join(t.TempDir(), "dump")
	file, err := os.Create(name)
	require.NoError(t, err)
	require.NoError(t, whatif.WriteDump(file, objects))
	require.NoError(t, file.Close())
	return name
}

// A program that links Kubernetes' components has a flag --version of its own kind in the set that cobra adds to each command.
// It writes to that set while it does, so that a flag that stayed there would have the parallel tests race.
func TestVersionBesideAnotherFlag(t *testing.T) {
	ofProgram := pflag.CommandLine
	t.Cleanup(func() { pflag.CommandLine = ofProgram })
	pflag.CommandLine = pflag.NewFlagSet("", pflag.ContinueOnError)
	pflag.CommandLine.String("version", "", "another one")
	out, _, err := ask(t, server(whatif.Objects{}, "", ""), "--version")
	require.NoError(t, err)
	require.Regexp(t, "^kubectl devices version \\S", out)
	out, _, err = ask(t, server(whatif.Objects{}, "", ""))
	require.NoError(t, err)
	require.NotContains(t, out, "version")
}
