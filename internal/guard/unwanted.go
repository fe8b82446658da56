package guard

import (
	"fmt"
	"strings"

	resourceapi "k8s.io/api/resource/v1"

	"github.com/quartermaster-dra/quartermaster/internal/dra"
	"github.com/quartermaster-dra/quartermaster/pkg/ledger"
)

// unwanted denies devices that the claim's spec cannot ask for: for unknown requests, for two alternatives of one
// request, or more than a request's count. No scheduler writes that, but a client that is not an API server could
// block these devices for as long as a write may take.
func (r *Request) unwanted() (answer Answer, done bool) {
	if !r.Stored || r.Unbounded {
		return Answer{}, false
	}
	got, chosen := make(map[string]int64), make(map[string]string)
	for i := range r.After.Devices.Results {
		result := &r.After.Devices.Results[i]
		most, found := r.most(result.Request)
		name, _, _ := strings.Cut(result.Request, "/")
		if chosen[name] == "" {
			chosen[name] = result.Request
		}
		got[name]++
		if !found || chosen[name] != result.Request || got[name] > most {
			return Answer{Kind: Denied, Reason: fmt.Sprintf(
				"claim %s was to get device %s/%s for request %s, and its spec does not request that many devices there; see what has allocated it",
				r.Claim, ledger.PoolOf(result), result.Device, result.Request)}, true
		}
	}
	return Answer{}, false
}

// most returns the largest number of devices for a request, by its name in an allocation: for an alternative,
// request/alternative.
func (r *Request) most(name string) (most int64, found bool) {
	for request := range dra.RequestsIn(r.Requests) {
		switch {
		case !request.Is(name):
		case request.All():
			return resourceapi.AllocationResultsMaxSize, true
		default:
			return max(request.Count, 1), true // The API's default.
		}
	}
	return 0, false
}
