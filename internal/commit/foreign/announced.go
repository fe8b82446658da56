package foreign

import (
	"encoding/json"
	"sync"

	resourceapi "k8s.io/api/resource/v1"
	"k8s.io/apimachinery/pkg/types"
)

// announced holds the claims that other schedulers have announced to allocate, by namespace. It is
// filled on demand.
type announced struct {
	mutex sync.Mutex
	in    map[string]map[string]contested
}

// announcedIn returns the claims that are announced in a namespace, by their key.
func (v *view) announcedIn(c *Watch, namespace string) map[string]contested {
	v.announced.mutex.Lock()
	defer v.announced.mutex.Unlock()
	byKey, known := v.announced.in[namespace]
	if known {
		return byKey
	}
	byKey = make(map[string]contested)
	for _, a := range c.Order.Announced(namespace) {
		c.enter(byKey, c.Cluster.Claim(a.Namespace, a.Name), competition{active: a.Since})
	}
	v.announced.in[namespace] = byKey
	return byKey
}

// keys caches the keys of claims: those that were used since the last full look, and those from before
// until they are used again.
type keys struct {
	mutex       sync.Mutex
	now, before map[types.UID]string
}

// rotate is called at each full look.
func (k *keys) rotate() {
	k.mutex.Lock()
	defer k.mutex.Unlock()
	k.before, k.now = k.now, make(map[types.UID]string)
}

// of returns the key of a claim: equal for claims of a namespace that ask for the same, "" for no claim.
func (k *keys) of(claim *resourceapi.ResourceClaim) string {
	switch {
	case claim == nil:
		return ""
	case claim.Name == "":
		return keyOf(claim) // Not cached: a claim for extended resources depends on classes.
	}
	k.mutex.Lock()
	defer k.mutex.Unlock()
	key, known := k.now[claim.UID]
	if !known {
		if key, known = k.before[claim.UID]; !known {
			key = keyOf(claim)
		}
		if k.now == nil {
			k.now = make(map[types.UID]string)
		}
		k.now[claim.UID] = key
	}
	return key
}

func keyOf(claim *resourceapi.ResourceClaim) string {
	text, err := json.Marshal(claim.Spec.Devices)
	if err != nil {
		return ""
	}
	return string(text)
}
