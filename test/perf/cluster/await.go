package cluster

import (
	"context"
	"fmt"
	"time"

	"k8s.io/apimachinery/pkg/labels"
	"k8s.io/apimachinery/pkg/util/wait"
	"k8s.io/client-go/informers"
)

const (
	awaitInterval = 20 * time.Millisecond
	awaitTimeout  = 5 * time.Minute
)

// AwaitInformed waits until a scheduler's informers have seen that many slices, and
// that many allocated claims that occupy devices.
func AwaitInformed(ctx context.Context, factory informers.SharedInformerFactory, slices, claims int) error {
	sliceLister := factory.Resource().V1().ResourceSlices().Lister()
	claimLister := factory.Resource().V1().ResourceClaims().Lister().ResourceClaims(OccupiedNamespace)
	var seenSlices, seenClaims int
	err := wait.PollUntilContextTimeout(ctx, awaitInterval, awaitTimeout, true, func(context.Context) (bool, error) {
		listedSlices, err := sliceLister.List(labels.Everything())
		if err != nil {
			return false, err
		}
		listedClaims, err := claimLister.List(labels.Everything())
		if err != nil {
			return false, err
		}
		seenSlices, seenClaims = len(listedSlices), 0
		for _, claim := range listedClaims {
			if claim.Status.Allocation != nil {
				seenClaims++
			}
		}
		return seenSlices >= slices && seenClaims >= claims, nil
	})
	if err != nil {
		return fmt.Errorf("wait until the scheduler has seen %d slices and %d allocated claims; it has seen %d and %d: %w",
			slices, claims, seenSlices, seenClaims, err)
	}
	return nil
}
