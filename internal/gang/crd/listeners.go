package crd

import (
	"sync"

	"sigs.k8s.io/scheduler-plugins/apis/scheduling/v1alpha1"
)

// listeners holds the functions to call after changes of PodGroups. It is safe for concurrent use; calls are made one
// after the other.
type listeners struct {
	mutex sync.Mutex
	calls []func(before, after *v1alpha1.PodGroup)
	// told holds the PodGroups that the listeners know, by "namespace/name".
	told map[string]*v1alpha1.PodGroup
}

// add adds a listener, and calls it for each known PodGroup.
func (l *listeners) add(call func(before, after *v1alpha1.PodGroup)) {
	l.mutex.Lock()
	defer l.mutex.Unlock()
	l.calls = append(l.calls, call)
	for _, group := range l.told {
		call(nil, group)
	}
}

// tell reports the new state of a PodGroup; after is nil if it is gone.
func (l *listeners) tell(key string, after *v1alpha1.PodGroup) {
	l.mutex.Lock()
	defer l.mutex.Unlock()
	l.change(key, after)
}

// tellAll reports that exactly these PodGroups exist.
func (l *listeners) tellAll(groups map[string]*v1alpha1.PodGroup) {
	l.mutex.Lock()
	defer l.mutex.Unlock()
	for key := range l.told {
		if groups[key] == nil {
			l.change(key, nil)
		}
	}
	for key, group := range groups {
		l.change(key, group)
	}
}

func (l *listeners) change(key string, after *v1alpha1.PodGroup) {
	before := l.told[key]
	switch {
	case before == after: // An earlier call has already reported this state.
		return
	case after == nil:
		delete(l.told, key)
	default:
		l.told[key] = after
	}
	for _, call := range l.calls {
		call(before, after)
	}
}
