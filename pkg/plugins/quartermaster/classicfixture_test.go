package quartermaster

import (
	"context"
	"testing"

	"github.com/stretchr/testify/require"
	resourceapi "k8s.io/api/resource/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/client-go/dynamic"

	"github.com/quartermaster-dra/quartermaster/pkg/apiversions"
	"github.com/quartermaster-dra/quartermaster/pkg/builder"
	"github.com/quartermaster-dra/quartermaster/pkg/classic"
	"github.com/quartermaster-dra/quartermaster/pkg/classic/classictest"
)

// classicFixture is a fixture on a server of v1alpha3, whose claims may be allocated by
// controllers. The test is the controller.
type classicFixture struct {
	*fixture
	contexts *classictest.Server
}

func inClassicCluster(t *testing.T, objects []runtime.Object, test func(t *testing.T, f *classicFixture)) {
	t.Helper()
	inCluster(t, objects, func(t *testing.T, f *fixture) {
		c := &classicFixture{fixture: f, contexts: classictest.NewServer()}
		c.enable()
		c.woken() // By what existed at the start.
		test(t, c)
	})
}

// enable makes the plugin know of the classic mode.
func (f *classicFixture) enable() {
	mode, err := f.pl.newClassicMode(f.ctx, f.contexts, &classic.Writer{
		Claims: func(string) dynamic.ResourceInterface { return rawClaims{server: f.server} },
	})
	require.NoError(f.t, err)
	f.pl.classic = mode
	f.settle()
}

// allocateOn is what a controller does for a node.
func (f *classicFixture) allocateOn(claim, node string) {
	f.changeClaim(claim, func(c *resourceapi.ResourceClaim) {
		c.Status.Allocation = &resourceapi.AllocationResult{}
		onNode(node)(c)
	})
	f.settle()
}

// answer is what a controller says about a claim, to which the pod refers by name.
func (f *classicFixture) answer(pod, claim string, unsuitable ...string) {
	statuses := f.contexts.Stored(pod).Status.ResourceClaims
	f.contexts.Answer(pod, append(statuses, apiversions.ClaimSchedulingStatus{Name: "by-name-" + claim, UnsuitableNodes: unsuitable})...)
	f.settle()
}

// woken says whether the pod was activated since the last call.
func (f *classicFixture) woken() []string {
	f.activator.mutex.Lock()
	defer f.activator.mutex.Unlock()
	names := f.activated
	f.activated = nil
	return names
}

// byController is a claim that a controller has to allocate.
func byController(name string, change ...func(*apiversions.AlphaClaim)) *resourceapi.ResourceClaim {
	claim := gpus(name, 1).Obj()
	fields := apiversions.AlphaClaim{Allocator: apiversions.ByController, Classes: []string{"gpu"}}
	for _, edit := range change {
		edit(&fields)
	}
	apiversions.SetAlphaClaim(claim, fields)
	return claim
}

func immediate(fields *apiversions.AlphaClaim) { fields.Immediate = true }

func requested(fields *apiversions.AlphaClaim) { fields.DeallocationRequested = true }

// rawClaims shows the claims of a server as one of v1alpha3 has them.
type rawClaims struct {
	dynamic.ResourceInterface
	server *server
}

func (r rawClaims) Get(_ context.Context, name string, _ metav1.GetOptions, _ ...string) (*unstructured.Unstructured, error) {
	claim, err := r.server.client.ResourceV1().ResourceClaims(builder.Namespace).Get(context.Background(), name, metav1.GetOptions{})
	if err != nil {
		return nil, err
	}
	fields, err := runtime.DefaultUnstructuredConverter.ToUnstructured(claim)
	if err != nil {
		return nil, err
	}
	raw := &unstructured.Unstructured{Object: fields}
	raw.SetAPIVersion("resource.k8s.io/v1alpha3")
	return raw, nil
}

func (r rawClaims) UpdateStatus(_ context.Context, raw *unstructured.Unstructured, o metav1.UpdateOptions) (*unstructured.Unstructured, error) {
	claim := &resourceapi.ResourceClaim{}
	if err := runtime.DefaultUnstructuredConverter.FromUnstructured(raw.Object, claim); err != nil {
		return nil, err
	}
	if _, err := r.server.client.ResourceV1().ResourceClaims(builder.Namespace).UpdateStatus(context.Background(), claim, o); err != nil {
		return nil, err
	}
	if asked, _, _ := unstructured.NestedBool(raw.Object, "status", "deallocationRequested"); asked {
		r.server.changeClaim(claim.Name, func(claim *resourceapi.ResourceClaim) {
			fields := apiversions.AlphaClaimOf(claim)
			fields.DeallocationRequested = true
			apiversions.SetAlphaClaim(claim, fields)
		})
	}
	return raw, nil
}
