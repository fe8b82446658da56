package simulation

import (
	"context"
	"errors"
	"fmt"
	"net/http"
	"strings"
	"sync/atomic"
	"time"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/client-go/kubernetes"
	"k8s.io/client-go/tools/leaderelection/resourcelock"

	"github.com/quartermaster-dra/quartermaster/internal/claims/write"
	"github.com/quartermaster-dra/quartermaster/internal/cluster/lease"
	"github.com/quartermaster-dra/quartermaster/internal/guard"
	"github.com/quartermaster-dra/quartermaster/internal/guard/server"
	"github.com/quartermaster-dra/quartermaster/internal/informer"
	"github.com/quartermaster-dra/quartermaster/pkg/ledger"
)

const (
	// guarded is the theme of histories in which the API server asks a guard before it stores an allocation, and
	// refuses what the guard does not allow or does not answer (failurePolicy: Fail).
	guarded = "guard"
	// requestTimeout is the maximum time that the API server works on a request.
	requestTimeout = time.Minute
)

// guardProcess is a guard as package server makes it, but without its webhook, its certificate and its registration:
// schedulers do not know that it exists. It decides from the beginning to the end.
type guardProcess struct {
	world      *World
	guard      *guard.Guard
	connection *Connection
	// away is set while the guard does not answer, late while its watches are late.
	away, late atomic.Bool
	// refuses is set while something else refuses all that the guard would allow: a user's admission policy, for example.
	refuses atomic.Bool
}

// Guard makes the API server ask a guard from now on.
func (w *World) Guard() error {
	g := &guardProcess{world: w, connection: w.server.Connect(w.seed+300, atOnce)}
	client, err := kubernetes.NewForConfig(configOf(g.connection, "quartermaster-guard"))
	if err != nil {
		return err
	}
	holdings := server.Follow(client)
	g.guard = &guard.Guard{
		Book: guard.NewBook(holdings.Ledger), Lease: new(lease.Lease), Lookup: guard.NewLookup(client.ResourceV1()), Stored: holdings,
		History: informer.NewHistory(client.ResourceV1().ResourceClaims(metav1.NamespaceAll)), // Nobody looks: the versions of this server never go back.
	}
	if err := holdings.OnClaim(g.guard.ClaimChanged); err != nil {
		return err
	}
	if err := holdings.OnSlice(func(string) { g.guard.SliceChanged() }); err != nil {
		return err
	}
	holdings.Start(w.ctx)
	if err := holdings.Sync(w.ctx); err != nil {
		return err
	}
	if err := g.lead(w.ctx, client); err != nil {
		return err
	}
	w.server.asks = g.decide
	w.guard = g
	fencer := &guard.Fencer{Claims: client.ResourceV1(), RequestTimeout: requestTimeout}
	if err := g.guard.TakeOver(w.ctx, g.guard.Lease.Since(), fencer, holdings.Ledger); err != nil {
		return err
	}
	w.group.Go(func() { g.guard.Sweep(w.ctx, fencer) })
	return nil
}

// lead takes the Lease of guards for longer than any history.
func (g *guardProcess) lead(ctx context.Context, client kubernetes.Interface) error {
	const forever = 1000 * time.Hour
	lock := g.guard.Lease.Follow(&resourcelock.LeaseLock{
		LeaseMeta: metav1.ObjectMeta{Namespace: server.Namespace, Name: "quartermaster-guard"}, Client: client.CoordinationV1(),
		LockConfig: resourcelock.ResourceLockConfig{Identity: guarded},
	}, forever)
	now := metav1.Now()
	return lock.Create(ctx, resourcelock.LeaderElectionRecord{
		HolderIdentity: guarded, LeaseDurationSeconds: int(forever.Seconds()), AcquireTime: now, RenewTime: now,
	})
}

// decide returns the reason why the API server must not store an allocation, nil if it may.
func (g *guardProcess) decide(r *guard.Request) error {
	if g.away.Load() {
		return apierrors.NewInternalError(fmt.Errorf("failed calling webhook %q: no endpoints available", write.Webhook))
	}
	if g.refuses.Load() {
		return apierrors.NewForbidden(schema.GroupResource{Group: "resource.k8s.io", Resource: "resourceclaims"}, r.Claim.Name, errors.New("an admission policy denied the request"))
	}
	switch answer := g.guard.Review(context.Background(), r); answer.Kind {
	case guard.Allowed:
		return nil
	case guard.Denied:
		g.world.note("the guard denies an allocation: %s", answer.Reason)
		return &apierrors.StatusError{ErrStatus: metav1.Status{
			Status: metav1.StatusFailure, Code: http.StatusForbidden, Reason: metav1.StatusReasonForbidden,
			Message: fmt.Sprintf("admission webhook %q denied the request: %s", write.Webhook, answer.Reason),
		}}
	default:
		return apierrors.NewInternalError(fmt.Errorf("failed calling webhook %q: %s", write.Webhook, answer.Reason))
	}
}

// admit asks whether a claim may get an allocation, without holding the store's mutex. It returns the version of the claim for
// which the answer holds, "" if the guard was not asked. If the guard allows it, some time passes before the write is stored.
func (s *Server) admit(c *Connection, r *http.Request, body []byte) (version string, err error) {
	if s.asks == nil || !mayAllocate(r) {
		return "", nil
	}
	wanted := s.wantedAllocation(c, r, body)
	if wanted == nil || !wanted.Allocates() {
		return "", nil
	}
	if err = s.asks(wanted); err == nil {
		c.mutex.Lock()
		takes := c.upTo(time.Duration(s.slow.Load()))
		c.mutex.Unlock()
		_ = pause(context.Background(), takes)
	}
	return wanted.Version, err
}

// mayAllocate reports whether the guard has to be asked about a request, if the request allocates.
func mayAllocate(r *http.Request) bool {
	return (r.Method == http.MethodPut || r.Method == http.MethodPatch) && strings.Contains(r.URL.Path, "/resourceclaims/") && strings.HasSuffix(r.URL.Path, "/status")
}

// wantedAllocation returns the question to the guard about a request, nil if the request fails anyway.
func (s *Server) wantedAllocation(c *Connection, r *http.Request, body []byte) *guard.Request {
	s.store.mutex.Lock()
	defer s.store.mutex.Unlock()
	req, err := s.parse(c, r, strings.Split(strings.Trim(r.URL.Path, "/"), "/"), body)
	if err != nil {
		return nil
	}
	now, err := s.find(req)
	if err != nil {
		return nil
	}
	fields, err := s.wanted(req, now)
	if err != nil {
		return nil
	}
	if v, _ := fields["metadata"].(map[string]any)["resourceVersion"].(string); v != "" && v != now.text("resourceVersion") {
		return nil
	}
	before, after := claimOfObject(now), claimOfObject(&object{fields: map[string]any{"metadata": now.metadata(), "status": fields["status"]}})
	return &guard.Request{
		Claim: ledger.RefTo(before), Version: before.ResourceVersion, Before: before.Status.Allocation, After: after.Status.Allocation,
		Requests: before.Spec.Devices.Requests,
	}
}

// goAway makes the guard not answer for a while.
func (g *guardProcess) goAway(lasts time.Duration) {
	g.away.Store(true)
	g.world.group.Go(func() {
		_ = pause(g.world.ctx, lasts)
		g.away.Store(false)
	})
}

// beLate delays the watches of the guard for a while.
func (g *guardProcess) beLate(lag, lasts time.Duration) {
	g.late.Store(true)
	g.connection.Set(Weather{Lag: lag})
	g.world.group.Go(func() {
		_ = pause(g.world.ctx, lasts)
		g.connection.Set(atOnce)
		g.late.Store(false)
	})
}

// slowDown delays the API server's writes after the guard's answers for a while.
func (s *Server) slowDown(ctx context.Context, most, lasts time.Duration) {
	s.slow.Store(int64(most))
	_ = pause(ctx, lasts)
	s.slow.Store(0)
}

// disturbGuard makes the guard not answer for a while, delays its watches, or delays writes that it allows.
func disturbGuard(g *generator) {
	lasts, most := time.Duration(1+g.random.IntN(40))*time.Second, time.Duration(g.random.IntN(4000))*time.Millisecond
	switch g.random.IntN(4) {
	case 0:
		g.add(g.soon(), func(w *World) { w.guard.goAway(lasts) }, "the guard does not answer for %s", lasts)
	case 1:
		g.add(g.soon(), func(w *World) { w.group.Go(func() { w.server.slowDown(w.ctx, most, lasts) }) }, "what the guard allows is stored up to %s later for %s", most, lasts)
	default:
		g.add(g.soon(), func(w *World) { w.guard.beLate(most, lasts) }, "the watches of the guard are late by up to %s for %s", most, lasts)
	}
}
