package api

import (
	"context"
	"fmt"
	"maps"
	"slices"
	"strings"
	"sync"
	"time"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/util/sets"
	"k8s.io/client-go/discovery"
	"k8s.io/klog/v2"
	"k8s.io/utils/clock"
)

const (
	// askAgainAfter is the validity of the server's answer when a request shows that a version is gone. Many requests
	// may show that at the same time.
	askAgainAfter = time.Second
	// lookAgainAfter is the validity of the answer when nothing is wrong, but a better version may have appeared.
	lookAgainAfter = time.Minute
)

// Served tracks the API server's versions of resource.k8s.io: for each resource the best supported version. It is
// safe for concurrent use.
//
// Until the server has answered for the first time, Served assumes v1, and requests show whether that is right. It
// never treats a known resource as gone: a server that is being replaced may give any answer for a moment, and if no
// claims seemed to exist, all devices would seem free. Meanwhile requests fail. Resources that v1 lacks may disappear
// with an upgrade, as soon as the server says that it has claims.
type Served struct {
	discovery discovery.ServerResourcesInterfaceWithContext
	clock     clock.WithTicker

	// asking is held while a request to the server runs, so that only one runs.
	asking sync.Mutex

	mutex    sync.Mutex
	versions map[string]Version // by resource
	// answered is the time of the server's last answer; zero if there was none.
	answered time.Time
	// changed is closed, and replaced, when a version changes.
	changed chan struct{}
}

func newServed(client discovery.ServerResourcesInterface, clock clock.WithTicker) *Served {
	s := &Served{
		discovery: discovery.ToServerResourcesInterfaceWithContext(client),
		clock:     clock,
		versions:  make(map[string]Version, len(convertible)),
		changed:   make(chan struct{}),
	}
	for resource := range convertible {
		if !isOptional(resource) {
			s.versions[resource] = V1
		}
	}
	return s
}

// Version returns the version in which a resource ("resourceclaims") is used, None if the server has none.
func (s *Served) Version(resource string) Version {
	version, _ := s.current(resource)
	return version
}

// MayServeClaims reports whether the server may have claims in a version. It is true for all versions since v1beta1;
// no server has an alpha version beside v1. A nil Served stands for a server with v1 of everything.
func (s *Served) MayServeClaims(version Version) bool {
	best := V1
	if s != nil {
		best = s.Version("resourceclaims")
	}
	switch version {
	case V1alpha2:
		return best == V1alpha2
	case V1alpha3:
		return best != V1 && best != V1alpha2
	default:
		return true
	}
}

// current also returns a channel that is closed when any version changes.
func (s *Served) current(resource string) (Version, <-chan struct{}) {
	s.mutex.Lock()
	defer s.mutex.Unlock()
	return s.versions[resource], s.changed
}

// podsMayBeOld reports whether the server may be 1.30 or older, whose pods refer to claims in other fields. It is
// true before the server's first answer, and while the server has no claims.
func (s *Served) podsMayBeOld() bool {
	s.mutex.Lock()
	defer s.mutex.Unlock()
	claims := s.versions[claimResource]
	return s.answered.IsZero() || claims == V1alpha2 || claims == None
}

// everything reports whether all resources are served in one version.
func (s *Served) everything(version Version) bool {
	s.mutex.Lock()
	defer s.mutex.Unlock()
	return !s.answered.IsZero() && s.all(version)
}

func (s *Served) all(version Version) bool {
	for resource, v := range s.versions {
		if v != version && !isOptional(resource) {
			return false
		}
	}
	return true
}

// ask asks the server for its versions, unless its last answer is younger than within. An error changes nothing.
func (s *Served) ask(ctx context.Context, within time.Duration) error {
	s.asking.Lock()
	defer s.asking.Unlock()
	s.mutex.Lock()
	fresh := !s.answered.IsZero() && s.clock.Since(s.answered) < within
	s.mutex.Unlock()
	if fresh {
		return nil
	}
	found, err := s.discover(ctx)
	if err != nil {
		return err
	}
	s.take(klog.FromContext(ctx), found)
	return nil
}

// discover returns the best version of each resource that the server has.
func (s *Served) discover(ctx context.Context) (map[string]Version, error) {
	has := make(map[Version]sets.Set[string])
	found := make(map[string]Version)
	for _, version := range allVersions {
		list, err := s.discovery.ServerResourcesForGroupVersionWithContext(ctx, version.groupVersion())
		if err != nil && !apierrors.IsNotFound(err) {
			return nil, fmt.Errorf("ask the API server what it has of %s: %w", version.groupVersion(), err)
		}
		has[version] = Names(list)
		for resource := range convertible {
			if found[resource] == None {
				found[resource] = best(resource, func(v Version) bool { return has[v].Has(nameIn(v, resource)) })
			}
		}
		if !lacks(found) {
			break // The other versions are older.
		}
	}
	return found, nil
}

// Names returns the names of the resources in an answer of discovery, which may be nil.
func Names(list *metav1.APIResourceList) sets.Set[string] {
	result := sets.New[string]()
	if list != nil {
		for i := range list.APIResources {
			result.Insert(list.APIResources[i].Name)
		}
	}
	return result
}

// take stores an answer of the server.
func (s *Served) take(logger klog.Logger, found map[string]Version) {
	s.mutex.Lock()
	defer s.mutex.Unlock()
	first := s.answered.IsZero()
	s.answered = s.clock.Now()
	before := maps.Clone(s.versions)
	for resource, version := range found {
		gone := isOptional(resource) && found[claimResource] != None
		if version != None || first || gone {
			s.versions[resource] = version
		}
	}
	if changed := !maps.Equal(before, s.versions); changed {
		close(s.changed)
		s.changed = make(chan struct{})
	} else if !first {
		return
	}
	s.report(logger, first)
}

// report logs the versions in use, and why.
func (s *Served) report(logger klog.Logger, first bool) {
	why := "v1 is the newest"
	switch {
	case s.versions[claimResource] == None:
		logger.Error(nil, "The API server has no version of the claim API that this scheduler knows. Pods without claims are scheduled; "+
			"for claims, turn the API on (kube-apiserver --feature-gates=DynamicResourceAllocation=true --runtime-config=resource.k8s.io/VERSION=true)",
			"apiGroup", "resource.k8s.io", "known", convertible[claimResource])
		return
	case s.versions[claimResource] != V1:
		why = "the API server has none that is newer"
	case !s.all(V1):
		why = "the API server does not have everything in v1"
	}
	if !first {
		why += "; that has changed"
	}
	logger.Info("Versions of the claim API in use", "apiGroup", "resource.k8s.io", "why", why, "versions", s.text())
}

// text returns "resourceclaims v1beta1, devicetaintrules none, ...", sorted by resource.
func (s *Served) text() string {
	var parts []string
	for _, resource := range slices.Sorted(maps.Keys(s.versions)) {
		if s.versions[resource] == None && isOptional(resource) {
			continue
		}
		parts = append(parts, resource+" "+s.versions[resource].String())
	}
	return strings.Join(parts, ", ")
}

// instead returns the version to use after the server has refused the tried one, and whether they differ.
func (s *Served) instead(ctx context.Context, resource string, tried Version) (Version, bool) {
	if version := s.Version(resource); version != tried {
		return version, true
	}
	if err := s.ask(ctx, askAgainAfter); err != nil {
		klog.FromContext(ctx).V(2).Info("Cannot find out which version the API server has instead", "resource", resource, "version", tried, "err", err)
		return tried, false
	}
	version := s.Version(resource)
	return version, version != tried
}

// lookForBetter asks the server at most every lookAgainAfter while a better version than the current one may exist.
func (s *Served) lookForBetter(ctx context.Context, resource string) {
	if s.Version(resource) == convertible[resource][0] {
		return
	}
	if err := s.ask(ctx, lookAgainAfter); err != nil {
		klog.FromContext(ctx).V(2).Info("Cannot find out whether the API server has a newer version", "resource", resource, "err", err)
	}
}

// run asks for missing resources until the server has them, or the context ends. It asks more often before the first
// answer: most servers have v1, and until that is known, pods are read as if they might be old.
func (s *Served) run(ctx context.Context) {
	for s.lacksAny() {
		pause := lookAgainAfter
		if !s.hasAnswered() {
			pause = askAgainAfter
		}
		select {
		case <-ctx.Done():
			return
		case <-s.clock.After(pause):
		}
		if err := s.ask(ctx, 0); err != nil {
			klog.FromContext(ctx).V(2).Info("Cannot find out whether the API server has more by now", "err", err)
		}
	}
}

func (s *Served) hasAnswered() bool {
	s.mutex.Lock()
	defer s.mutex.Unlock()
	return !s.answered.IsZero()
}

// lacksAny reports whether a resource is not served, or the server has not answered yet.
func (s *Served) lacksAny() bool {
	s.mutex.Lock()
	defer s.mutex.Unlock()
	return s.answered.IsZero() || lacks(s.versions)
}

// lacks reports whether any required resource has no version.
func lacks(versions map[string]Version) bool {
	for resource, version := range versions {
		if version == None && !isOptional(resource) {
			return true
		}
	}
	return false
}
