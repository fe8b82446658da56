package guard

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
	admissionregistrationv1 "k8s.io/api/admissionregistration/v1"
	resourceapi "k8s.io/api/resource/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/quartermaster-dra/quartermaster/internal/claims/write"
	"github.com/quartermaster-dra/quartermaster/test/builder"
	"github.com/quartermaster-dra/quartermaster/test/harness"
)

// fullClaim makes a claim with selectors that is as large as etcd stores it, but for some room, to a byte. API servers do
// not note who has written its fields then.
func (s *tenant) fullClaim(name string, room int) {
	s.T.Helper()
	const longest, most = resourceapi.CELSelectorExpressionMaxLength, 1536 << 10
	create := func(size int) error {
		var requests []*builder.RequestBuilder
		for left := size; left > 0; {
			var selectors []string
			for ; left > 0 && len(selectors) < resourceapi.DeviceSelectorsMaxSize; left -= longest {
				selectors = append(selectors, `"`+strings.Repeat("a", max(1, min(longest, left)-6))+`"!=""`)
			}
			requests = append(requests, builder.Request(fmt.Sprintf("gpu%d", len(requests)), s.Name).Where(selectors...))
		}
		claim := builder.Claim(name, requests...).In(s.Name).Obj()
		claim.UID, claim.ResourceVersion = "", ""
		// There is no room for a manager with such a name.
		_, err := cluster.Client.ResourceV1().ResourceClaims(s.Name).Create(s.T.Context(), claim, metav1.CreateOptions{FieldManager: strings.Repeat("m", 128)})
		return err
	}
	fits, not := most-4<<10, most
	for fits+1 < not {
		size := (fits + not) / 2
		err := create(size)
		if err == nil {
			fits = size
			s.Delete(builder.Claim(name).In(s.Name).Obj())
			s.ClaimGone(name)
			continue
		}
		require.ErrorContains(s.T, err, "request is too large")
		not = size
	}
	require.NoError(s.T, create(fits-room))
	require.Empty(s.T, s.stored(name).ManagedFields)
	s.T.Logf("claim %s has selectors of %d bytes", name, fits-room)
}

// TestClaimsWithoutRoom: a tenant fills claims up to what etcd stores. Neither a question about one nor a takeover takes
// longer than with any other claim, although nothing can be added to them.
func TestClaimsWithoutRoom(t *testing.T) {
	harness.Long(t, "claims are filled up to what etcd stores")
	g, s := installGuards(t, admissionregistrationv1.Fail), newTenant(t, "no-room", 2)
	process := g.start()
	g.decider()
	s.guarded()
	s.claims("other")
	// An update takes some bytes more than a creation. The second claim has room for that and the smallest fence.
	for name, room := range map[string]int{"no-room": 0, "some-room": 110} {
		s.fullClaim(name, room)
		webhook, err := g.webhook(t.Context())
		require.NoError(t, err)
		a := &attacker{tenant: s, process: process, client: trusting(webhook.ClientConfig.CABundle), url: *webhook.ClientConfig.URL}
		allocation := s.allocation("gpu-0")
		allocation.Devices.Results[0].Request = "gpu0"
		asked := s.stored(name)
		asked.ManagedFields, asked.Spec = nil, resourceapi.ResourceClaimSpec{} // The guard knows better.
		s.Eventually("have a question allowed", func(ctx context.Context) error {
			response, err := a.answer(ctx, a.question(asked, allocation, nil))
			if err == nil && !response.Allowed {
				err = errors.New(response.Result.Message)
			}
			return err
		})
		began := time.Now()
		s.Eventually("have the device", func(ctx context.Context) error { return s.allocate(ctx, "other", "gpu-0") })
		t.Logf("%s: a question has kept its device for %s", name, time.Since(began).Round(time.Millisecond))
		require.NoError(t, s.release(t.Context(), "other"))
		annotations := s.stored(name).Annotations
		require.Equal(t, room > 0, len(annotations) > 0)
		require.NotContains(t, annotations, write.FenceAnnotation)
	}
	require.NoError(t, process.Stop())
	began := time.Now()
	successor := g.start()
	s.Eventually("have another guard decide", func(context.Context) error {
		_, err := g.find(process)
		return err
	})
	require.Equal(t, successor, g.decider(process))
	t.Logf("a takeover took %s", time.Since(began).Round(time.Millisecond))
}
