package simulation

import (
	"context"
	"fmt"
	"sync"
	"sync/atomic"
	"time"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/client-go/kubernetes"
	"k8s.io/client-go/rest"
	"k8s.io/client-go/tools/events"
	"k8s.io/client-go/tools/leaderelection"
	"k8s.io/client-go/tools/leaderelection/resourcelock"
	schedulerconfig "k8s.io/kubernetes/cmd/kube-scheduler/app/config"
	"k8s.io/kubernetes/pkg/scheduler"
	"k8s.io/kubernetes/pkg/scheduler/apis/config"
	"k8s.io/kubernetes/pkg/scheduler/apis/config/scheme"

	"github.com/quartermaster-dra/quartermaster/internal/wiring"
	"github.com/quartermaster-dra/quartermaster/manifests"
)

// Times of the election are kube-scheduler's defaults.
const (
	leaseDuration = 15 * time.Second
	renewDeadline = 10 * time.Second
	retryPeriod   = 2 * time.Second
	// restart is the time until a process that has ended runs again.
	restart = 3 * time.Second
)

// replica is one process of our scheduler: it takes part in leader election, and starts again when it ends.
type replica struct {
	world *World
	name  string
	// scheduler is the name of its profiles and of its lease.
	scheduler  string
	configured config.KubeSchedulerConfiguration
	// clock is the clock of its machine, nil if that clock is right.
	clock *clock
	// lives counts the starts of the process.
	lives      int
	connection *Connection
	cancel     context.CancelFunc
	ended      chan struct{}
	// leads is set while it schedules.
	leads atomic.Bool
}

func configOf(c *Connection, agent string) *rest.Config {
	return &rest.Config{Host: "http://simulation", Transport: c, QPS: -1, UserAgent: agent, ContentConfig: rest.ContentConfig{
		ContentType: runtime.ContentTypeJSON, AcceptContentTypes: runtime.ContentTypeProtobuf + "," + runtime.ContentTypeJSON,
	}}
}

// rendered is the configuration that users are given.
var rendered = sync.OnceValues(func() ([]byte, error) { return manifests.SchedulerConfig(manifests.Secondary) })

// configuration returns the rendered configuration as an object. The feature gates decide which plugins it has by default.
func configuration() (config.KubeSchedulerConfiguration, error) {
	raw, err := rendered()
	if err != nil {
		return config.KubeSchedulerConfiguration{}, err
	}
	object, _, err := scheme.Codecs.UniversalDecoder().Decode(raw, nil, nil)
	if err != nil {
		return config.KubeSchedulerConfiguration{}, err
	}
	configured, ok := object.(*config.KubeSchedulerConfiguration)
	if !ok {
		return config.KubeSchedulerConfiguration{}, fmt.Errorf("the scheduler's configuration is a %T", object)
	}
	return *configured, nil
}

// start starts the process, and returns at once.
func (r *replica) start() {
	r.lives++
	w := r.world
	ctx, cancel := context.WithCancel(wiring.Context(w.ctx))
	r.connection = w.server.Connect(w.seed+uint64(r.lives), w.weather)
	r.connection.clock = r.clock
	r.cancel, r.ended = cancel, make(chan struct{})
	go func() {
		defer close(r.ended)
		defer r.connection.Close()
		defer cancel()
		if err := r.run(ctx); err != nil && ctx.Err() == nil {
			w.note("%s ended: %v", r.name, err)
		}
	}()
}

// run runs the process until it ends.
func (r *replica) run(ctx context.Context) error {
	c := configOf(r.connection, "scheduler/"+r.name)
	client, err := kubernetes.NewForConfig(c)
	if err != nil {
		return err
	}
	election := &leaderelection.LeaderElectionConfig{
		Lock: &resourcelock.LeaseLock{
			LeaseMeta: metav1.ObjectMeta{Namespace: "kube-system", Name: r.scheduler}, Client: client.CoordinationV1(),
			LockConfig: resourcelock.ResourceLockConfig{Identity: fmt.Sprintf("%s-%d", r.name, r.lives)},
		},
		LeaseDuration: leaseDuration, RenewDeadline: renewDeadline, RetryPeriod: retryPeriod,
	}
	broadcaster := events.NewEventBroadcasterAdapterWithContext(ctx, client)
	making := &quietContext{Context: ctx}
	completed, sched, err := wiring.New(making, &schedulerconfig.Config{
		ComponentConfig: r.configured, Client: client, KubeConfig: c, InformerFactory: scheduler.NewInformerFactory(client, 0, nil),
		EventBroadcaster: countingBroadcaster{broadcaster, &r.world.attempts}, LeaderElection: election, PodMaxInUnschedulablePodsDuration: r.world.flush,
	}, wiring.Plugins(), func(config.KubeSchedulerProfile) {})
	if err != nil {
		return err
	}
	factory := completed.InformerFactory
	making.made.Store(true)
	defer factory.Shutdown()
	defer broadcaster.Shutdown()
	// wiring.WatchHistory is left out: the versions of this server never go back, and to ask each second is half of all requests.
	defer r.cancel() // before the calls that wait for its goroutines
	factory.Start(ctx.Done())
	factory.WaitForCacheSync(ctx.Done())
	if err := sched.WaitForHandlersSync(ctx); err != nil {
		return err
	}
	return r.lead(ctx, election, sched)
}

// lead runs the scheduler while the replica holds the lease. The process ends when it loses the lease.
func (r *replica) lead(ctx context.Context, election *leaderelection.LeaderElectionConfig, sched *scheduler.Scheduler) error {
	ctx, cancel := context.WithCancel(ctx)
	defer cancel()
	ran, started, connection := make(chan struct{}), atomic.Bool{}, r.connection
	election.Callbacks = leaderelection.LeaderCallbacks{
		OnStartedLeading: func(context.Context) {
			started.Store(true)
			defer close(ran)
			r.world.note("%s leads", r.name)
			r.leads.Store(true)
			defer r.leads.Store(false)
			sched.Run(ctx) // This context ends late if the process was stopped; see outlast.
		},
		OnStoppedLeading: func() {
			connection.outlast(ctx)
			cancel()
		},
	}
	elector, err := leaderelection.NewLeaderElector(*election)
	if err != nil {
		return err
	}
	elector.Run(ctx)
	time.Sleep(time.Millisecond) // The callback runs in a goroutine of its own.
	if started.Load() {
		<-ran
	}
	return nil
}

// keepRunning starts the process again whenever it has ended, until the world ends.
func (r *replica) keepRunning() {
	for r.world.ctx.Err() == nil {
		<-r.ended
		if pause(r.world.ctx, restart) != nil {
			return
		}
		r.world.note("%s starts again", r.name)
		r.start()
	}
}
