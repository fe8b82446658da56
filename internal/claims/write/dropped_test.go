package write

import (
	"context"
	"errors"
	"io"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	"github.com/stretchr/testify/require"
	resourceapi "k8s.io/api/resource/v1"
	"k8s.io/apimachinery/pkg/api/resource"
	"k8s.io/apimachinery/pkg/types"
)

// sharedAllocation is an allocation with fields that older servers do not know.
func sharedAllocation() *resourceapi.AllocationResult {
	allocation := newAllocation("gpu-0", "gpu-1")
	id := types.UID("share")
	for i := range allocation.Devices.Results {
		result := &allocation.Devices.Results[i]
		result.ShareID = &id
		result.ConsumedCapacity = map[resourceapi.QualifiedName]resource.Quantity{"memory": resource.MustParse("1Gi")}
		result.BindingConditions = []string{"ready"}
	}
	return allocation
}

// A server that drops fields says nothing. Such an allocation is not accepted, and nothing
// of it is left behind.
func TestDroppedFields(t *testing.T) {
	t.Parallel()
	noShares := func(allocation *resourceapi.AllocationResult) {
		for i := range allocation.Devices.Results {
			allocation.Devices.Results[i].ShareID, allocation.Devices.Results[i].ConsumedCapacity = nil, nil
		}
	}
	for name, tc := range map[string]struct {
		drop     func(*resourceapi.AllocationResult)
		faults   []fault
		requests string
		errText  []string
		// left is the claim afterwards.
		left *resourceapi.ResourceClaim
	}{
		"shares": {
			drop:     noShares,
			requests: "update status, update status, update",
			errText:  []string{"claim train/gpus: allocation not stored completely: asked to store an allocation of gpu.example.com/node-a/gpu-0 and gpu.example.com/node-a/gpu-1 and reserve it for pods/me (UID me-uid); found that the server has accepted that but stored it without status.allocation.devices.results[].consumedCapacity and status.allocation.devices.results[].shareID; turn the feature on in the API server (its version may be too old for it) or use devices that do not need it"},
			left:     newClaim(withFinalizers()),
		},
		"binding conditions of one device": {
			drop:     func(allocation *resourceapi.AllocationResult) { allocation.Devices.Results[1].BindingConditions = nil },
			requests: "update status, update status, update",
			errText:  []string{"without status.allocation.devices.results[].bindingConditions;"},
			left:     newClaim(withFinalizers()),
		},
		"the answer gets lost": {
			drop:     noShares,
			faults:   []fault{{on: "update status", applied: true, err: io.EOF}},
			requests: "update status, get, update status, update",
			errText:  []string{"shareID"},
			left:     newClaim(withFinalizers()),
		},
		"another pod has joined meanwhile": {
			drop: noShares,
			faults: []fault{{on: "update status", applied: true, err: io.EOF},
				{on: "get", before: changed(reservedFor("other"))}},
			requests: "update status, get, update status",
			errText:  []string{"shareID"},
			left:     newClaim(protected, reservedFor("other")),
		},
		"nothing that matters": {
			drop:     func(allocation *resourceapi.AllocationResult) { allocation.AllocationTimestamp = nil },
			requests: "update status",
		},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			s, client := startServer(t, newClaim(protected), tc.faults...)
			s.drop = tc.drop
			w, _ := newTestWriter(client)
			got, err := w.Bind(context.Background(), newClaim(protected), sharedAllocation(), consumer("me"))
			require.Equal(t, tc.requests, strings.Join(s.requests, ", "))
			if tc.left == nil {
				require.NoError(t, err)
				require.True(t, SameAllocation(sharedAllocation(), got.Status.Allocation))
				return
			}
			require.ErrorIs(t, err, ErrNotStored)
			require.Nil(t, got)
			for _, text := range append(tc.errText, "train/gpus", "me-uid", "turn the feature on") {
				require.ErrorContains(t, err, text)
			}
			require.ElementsMatch(t, tc.left.Finalizers, s.claim.Finalizers)
			require.Empty(t, cmp.Diff(tc.left.Status.ReservedFor, s.claim.Status.ReservedFor))
			if len(tc.left.Status.ReservedFor) == 0 {
				require.Nil(t, s.claim.Status.Allocation)
			}
		})
	}
}

// An allocation with other devices, made by another client, is not partial.
func TestOtherAllocationIsNotPartial(t *testing.T) {
	t.Parallel()
	faster := fault{on: "update status", before: changed(allocated("gpu-0"), reservedFor("other")), err: errors.New("conflict")}
	s, client := startServer(t, newClaim(protected), faster)
	w, _ := newTestWriter(client)
	_, err := w.Bind(context.Background(), newClaim(protected), newAllocation("gpu-1"), consumer("me"))
	require.ErrorIs(t, err, ErrAllocatedElsewhere)
	require.NotNil(t, s.claim.Status.Allocation, "it is not ours to roll back")
}
