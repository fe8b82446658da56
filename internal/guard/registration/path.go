package registration

import (
	"context"
	"crypto/rand"
	"net/url"
	"strings"
	"time"

	admissionregistrationv1 "k8s.io/api/admissionregistration/v1"
	"k8s.io/utils/ptr"
)

// API servers show no certificate unless they are told to, but they do know the configuration, which tenants may not read. So
// a guard is asked at a path that nobody can guess.
const (
	// pathLasts is how long a guard keeps its path: while no guard can be reached, API servers tell it to those whose
	// writes they refuse.
	pathLasts = 10 * time.Minute
	// pathCounts is how long the guard is asked at a path after the configuration has had it: API servers learn of another one
	// with a delay, which is long where their watches do not get on.
	pathCounts = 10 * time.Minute
	// unknownInterval is how often to look at most because somebody asks at a path that is not known, and mostUnknown is how
	// many may wait for that.
	unknownInterval = time.Second
	mostUnknown     = 256
)

// secret returns the path at which this guard is to be asked.
func (r *Registrar) secret() string {
	r.mutex.Lock()
	defer r.mutex.Unlock()
	if r.path == "" || time.Since(r.made) >= pathLasts {
		r.path, r.made = "/"+strings.ToLower(rand.Text()), time.Now()
	}
	return r.path
}

// pathOf returns the path at which a configuration has guards asked, "" if it has none.
func pathOf(config *admissionregistrationv1.ValidatingWebhookConfiguration) string {
	webhook := webhookOf(config)
	if webhook == nil {
		return ""
	}
	if service := webhook.ClientConfig.Service; service != nil {
		return "/" + strings.TrimPrefix(ptr.Deref(service.Path, ""), "/")
	}
	parsed, err := url.Parse(ptr.Deref(webhook.ClientConfig.URL, ""))
	if err != nil {
		return ""
	}
	return "/" + strings.TrimPrefix(parsed.Path, "/")
}

// Expect has Asked know of a path that the configuration is about to have.
func (l *Lookout) Expect(path string) {
	l.mutex.Lock()
	defer l.mutex.Unlock()
	if l.paths == nil {
		l.paths = make(map[string]time.Time)
	}
	l.paths[path] = time.Now()
}

// Asked reports whether API servers may ask at a path: as the configuration says, or said a while ago. The configuration may
// have been replaced since the last look, so there is another one before a path is refused.
func (l *Lookout) Asked(ctx context.Context, path string) bool {
	l.mutex.Lock()
	defer l.mutex.Unlock()
	if l.counts(path) || l.unknown >= mostUnknown {
		return l.counts(path)
	}
	l.unknown++
	if l.next == nil {
		l.next = make(chan struct{})
		go l.lookNext(context.WithoutCancel(ctx))
	}
	next := l.next
	l.mutex.Unlock()
	select {
	case <-next:
	case <-ctx.Done():
	}
	l.mutex.Lock()
	l.unknown--
	return l.counts(path)
}

// counts reports whether a path is known. Its caller has the lock.
func (l *Lookout) counts(path string) bool {
	named, found := l.paths[path]
	return found && (path == l.path || time.Since(named) < pathCounts)
}

// lookNext looks for those who wait for that, when it is time. Who comes while it looks waits for another one.
func (l *Lookout) lookNext(ctx context.Context) {
	ctx, cancel := context.WithTimeout(ctx, lookInterval)
	defer cancel()
	l.mutex.Lock()
	wait := unknownInterval - time.Since(l.again)
	l.mutex.Unlock()
	time.Sleep(wait)
	l.mutex.Lock()
	next := l.next
	l.next, l.again = nil, time.Now()
	l.mutex.Unlock()
	l.Look(ctx)
	close(next)
}

// saw notes a path that the configuration has, and forgets those that do not count any more. Its caller has the lock.
func (l *Lookout) saw(path string) {
	now := time.Now()
	if l.paths == nil {
		l.paths = make(map[string]time.Time)
	}
	for other, named := range l.paths {
		if now.Sub(named) >= pathCounts {
			delete(l.paths, other)
		}
	}
	if l.path = path; path != "" {
		l.paths[path] = now
	}
}
