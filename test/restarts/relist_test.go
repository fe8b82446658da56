package restarts

import (
	"context"
	"fmt"
	"os"
	"regexp"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
	corev1 "k8s.io/api/core/v1"
	resourceapi "k8s.io/api/resource/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/labels"

	"github.com/quartermaster-dra/quartermaster/test/builder"
	"github.com/quartermaster-dra/quartermaster/test/harness"
)

// listsKind is what client-go logs when it begins to list a kind, at first and when a watch cannot go on where it was.
var listsKind = regexp.MustCompile(`"Listing and watching" type="\*v1\.([A-Za-z]+)"`)

// In the middle of a burst, the scheduler's watches fall so far behind that it has to
// list everything again. Meanwhile pods went, their devices became free, one of these was
// allocated by somebody else, and more devices and pods came.
func TestWatchesTooFarBehind(t *testing.T) {
	harness.Long(t, "hundreds of pods come; the simulation has watches that have to list again")
	random := newRandom(t)
	const nodes, base, pods, more = 5, 60, 150, 60
	s := cluster.NewSpace(t, "relist", "", nodes)
	s.Patience = restartPatience
	createTemplates(s)
	b, later := newBurst(s, "pod", pods), newBurst(s, "later", more)
	// The devices of the base are what the later burst needs.
	left := newDevicesFor(s, nodes, b, burst{pods: base})
	require.Greater(t, later.devices(), left+nodes, "the later pods must not fit without the devices of those that go")
	gate := newGate(s)
	s.StartScheduler(harness.SchedulerOptions{QPS: outageQPS, Kubeconfig: gate.kubeconfig, ExtraArgs: []string{"--vmodule=reflector=4"}})
	s.CreatePods("base", base)
	runAll(s, base)

	writes := follow(s)
	soFar, _ := writes.now()
	begin := time.Now()
	require.NoError(t, b.create(t.Context()))
	writes.mustReach(s, soFar+1+random.IntN(b.writes()/2))
	gate.close()
	logged := len(readLog(t, s.Log))
	at, _ := writes.now()
	open := pods + base - s.Bound()
	require.Positive(t, open, "the burst was over before the watches fell behind")
	foreign := changeEverything(s, base, nodes)
	later.createWithClaims()
	require.NoError(t, s.Cluster.ControlPlane.ForgetHistory(t.Context()))
	clientsListAgain(s)
	gate.open()
	behind := time.Now()

	runAllAfterOutage(s, pods+more+1)
	listed := listedKinds(readLog(t, s.Log)[logged:])
	t.Logf("watches were cut at write %d with %d of %d pods not bound; %d pods were deleted and %d created meanwhile; %d kinds were listed again (%s); all ran %s after that, %s after the start",
		at-soFar, open, pods, base, more+1, len(listed), strings.Join(listed, ", "), rounded(behind), rounded(begin))
	for _, kind := range []string{"ResourceClaim", "Pod"} {
		require.Contains(t, listed, kind, "the watch of this kind went on, so that this test has not tested anything")
	}
	// One device of the base went to somebody else, and the new node brought two.
	require.Equal(t, left+burst{pods: base}.devices()-later.devices()-1+2, s.NothingLeaked())
	require.Equal(t, []string{foreign}, s.DeviceNames("foreign"))
}

// changeEverything deletes the pods of the base, and when their devices are free,
// allocates one of them for a new pod, as another scheduler would. It adds a node with two
// devices. It returns the device as node/device.
func changeEverything(s *harness.Space, base, newNode int) string {
	s.T.Helper()
	var device string
	for i := range base {
		name := fmt.Sprintf("base-%03d", i)
		if held := s.DeviceNames(name); len(held) > 0 {
			device = held[0]
		}
		s.DeletePod(name)
	}
	node, name, found := strings.Cut(device, "/")
	require.True(s.T, found, "no pod of the base holds a device: %q", device)
	s.Eventually("free the devices of the pods that are gone", func(context.Context) error {
		claims, err := s.Cluster.Informers.Resource().V1().ResourceClaims().Lister().ResourceClaims(s.Name).List(labels.Everything())
		if err != nil {
			return err
		}
		for _, claim := range claims {
			if strings.HasPrefix(claim.Name, "base-") {
				return fmt.Errorf("claim %s is still there", claim.Name)
			}
		}
		return nil
	})
	s.Create(builder.Claim("foreign", s.Want(1)).Obj(), s.Pod("foreign", builder.Uses("foreign")))
	s.Protect("foreign")
	s.UpdateClaimStatus("foreign", func(claim *resourceapi.ResourceClaim) {
		claim.Status.Allocation = &resourceapi.AllocationResult{
			Devices: resourceapi.DeviceAllocationResult{Results: []resourceapi.DeviceRequestAllocationResult{
				{Request: "gpu", Driver: s.Driver, Pool: node, Device: name},
			}},
			NodeSelector: &corev1.NodeSelector{NodeSelectorTerms: []corev1.NodeSelectorTerm{{
				MatchFields: []corev1.NodeSelectorRequirement{{
					Key: metav1.ObjectNameField, Operator: corev1.NodeSelectorOpIn, Values: []string{node},
				}},
			}}},
		}
	})
	s.AddNode(newNode, nil)
	s.Devices(newNode, harness.Numbered(2)...)
	return device
}

func readLog(t *testing.T, path string) []byte {
	t.Helper()
	content, err := os.ReadFile(path)
	require.NoError(t, err)
	return content
}

// listedKinds returns the kinds whose watches began anew in a part of a log: because they had expired, or because the API server had
// closed them before, as it does with clients that are slow.
func listedKinds(log []byte) []string {
	var kinds []string
	for _, match := range listsKind.FindAllSubmatch(log, -1) {
		kinds = append(kinds, string(match[1]))
	}
	return kinds
}
