// Package stub has parts of a scheduler that do nothing, for tests. Package builder does not import them, so that tests of packages which know
// no scheduler do not link one.
package stub

import (
	"errors"

	resourceapi "k8s.io/api/resource/v1"
	fwk "k8s.io/kube-scheduler/framework"
)

// NoTracker is a scheduler's tracker of claims that knows no more than the informer.
type NoTracker struct{ fwk.ResourceClaimTracker }

// Get implements fwk.ResourceClaimTracker.
func (NoTracker) Get(string, string) (*resourceapi.ResourceClaim, error) {
	return nil, errors.New("not tracked")
}

// AssumeClaimAfterAPICall implements fwk.ResourceClaimTracker.
func (NoTracker) AssumeClaimAfterAPICall(*resourceapi.ResourceClaim) error { return nil }
