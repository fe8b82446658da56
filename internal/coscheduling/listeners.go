package coscheduling

import (
	"sync"

	"sigs.k8s.io/scheduler-plugins/apis/scheduling/v1alpha1"
)

// listeners are those who hear of PodGroups. It is safe for concurrent use; calls are made one after the other.
type listeners struct {
	mutex sync.Mutex
	calls []func(before, after *v1alpha1.PodGroup)
	// told are the PodGroups that the listeners know, by namespace/name.
	told map[string]*v1alpha1.PodGroup
}

// add adds one, and tells it of what the others know.
func (l *listeners) add(call func(before, after *v1alpha1.PodGroup)) {
	l.mutex.Lock()
	defer l.mutex.Unlock()
	l.calls = append(l.calls, call)
	for _, group := range l.told {
		call(nil, group)
	}
}

// tell tells what has become of a PodGroup: after is nil if it is gone.
func (l *listeners) tell(key string, after *v1alpha1.PodGroup) {
	l.mutex.Lock()
	defer l.mutex.Unlock()
	l.change(key, after)
}

// tellAll tells that there are these PodGroups and no others.
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
	case before == after: // An event that was waiting when the next one was told already.
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
