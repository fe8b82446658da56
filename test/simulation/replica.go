package simulation

import (
	"context"
	"fmt"
	"os"
	"sync/atomic"
	"time"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/client-go/kubernetes"
	"k8s.io/client-go/rest"
	"k8s.io/client-go/tools/events"
	"k8s.io/client-go/tools/leaderelection"
	"k8s.io/client-go/tools/leaderelection/resourcelock"
	"k8s.io/kubernetes/pkg/scheduler"
	"k8s.io/kubernetes/pkg/scheduler/apis/config"
	"k8s.io/kubernetes/pkg/scheduler/apis/config/scheme"
	frameworkruntime "k8s.io/kubernetes/pkg/scheduler/framework/runtime"

	"github.com/quartermaster-dra/quartermaster/internal/informer"
	"github.com/quartermaster-dra/quartermaster/internal/leadership"
	"github.com/quartermaster-dra/quartermaster/internal/slim"
	"github.com/quartermaster-dra/quartermaster/pkg/plugins/gangplacement"
	"github.com/quartermaster-dra/quartermaster/pkg/plugins/quartermaster"
)

// Times of the election, as kube-scheduler has them by default.
const (
	leaseDuration = 15 * time.Second
	renewDeadline = 10 * time.Second
	retryPeriod   = 2 * time.Second
	// restart is how long it takes until a process that has ended runs again.
	restart = 3 * time.Second
)

// replica is one process of our scheduler: it stands for election, and is started again when it ends.
type replica struct {
	world *World
	name  string
	// scheduler is the name of its profiles and of its lease.
	scheduler string
	profiles  []config.KubeSchedulerProfile
	// lives counts how often it was started.
	lives      int
	connection *Connection
	cancel     context.CancelFunc
	ended      chan struct{}
}

func configOf(c *Connection, agent string) *rest.Config {
	return &rest.Config{Host: "http://simulation", Transport: c, QPS: -1, UserAgent: agent, ContentConfig: rest.ContentConfig{ContentType: "application/json"}}
}

// profiles are those of the configuration that users are given.
func profiles(path string) ([]config.KubeSchedulerProfile, error) {
	raw, err := os.ReadFile(path)
	if err != nil {
		return nil, err
	}
	object, _, err := scheme.Codecs.UniversalDecoder().Decode(raw, nil, nil)
	if err != nil {
		return nil, err
	}
	configured, ok := object.(*config.KubeSchedulerConfiguration)
	if !ok {
		return nil, fmt.Errorf("%s has a %T", path, object)
	}
	return configured.Profiles, nil
}

// start starts the process. It returns when that runs.
func (r *replica) start() {
	r.lives++
	w := r.world
	ctx, cancel := context.WithCancel(leadership.NewContext(w.ctx, new(leadership.Lease)))
	r.connection = w.server.Connect(w.seed+uint64(r.lives), w.weather)
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

// run is the process.
func (r *replica) run(ctx context.Context) error {
	c := configOf(r.connection, "scheduler/"+r.name)
	client, err := kubernetes.NewForConfig(c)
	if err != nil {
		return err
	}
	factory := informer.SurvivingRules(scheduler.NewInformerFactory(client, 0, nil))
	if err := slim.Informers(factory); err != nil {
		return err
	}
	broadcaster := events.NewEventBroadcasterAdapterWithContext(ctx, client)
	making := &quietContext{Context: ctx}
	sched, err := scheduler.New(making, client, factory, nil, func(name string) events.EventRecorderLogger { return broadcaster.NewRecorder(name) },
		scheduler.WithKubeConfig(c), scheduler.WithProfiles(r.profiles...),
		scheduler.WithPodMaxInUnschedulablePodsDuration(r.world.flush),
		scheduler.WithFrameworkOutOfTreeRegistry(frameworkruntime.Registry{quartermaster.Name: quartermaster.New, gangplacement.Name: gangplacement.New}))
	if err != nil {
		return err
	}
	making.made.Store(true)
	defer factory.Shutdown()
	defer broadcaster.Shutdown()
	broadcaster.StartRecordingToSink(ctx.Done())
	history := make(chan struct{})
	go func() {
		defer close(history)
		if err := informer.NewHistory(client.ResourceV1()).Run(ctx); err != nil && ctx.Err() == nil {
			r.world.fail("%s: %v", r.name, err)
		}
	}()
	defer func() { <-history }()
	defer r.cancel() // before what waits for its goroutines
	factory.Start(ctx.Done())
	factory.WaitForCacheSync(ctx.Done())
	if err := sched.WaitForHandlersSync(ctx); err != nil {
		return err
	}
	return r.lead(ctx, client, sched)
}

// lead runs the scheduler while the replica has the lease. The process ends when it has lost that.
func (r *replica) lead(ctx context.Context, client kubernetes.Interface, sched *scheduler.Scheduler) error {
	ctx, cancel := context.WithCancel(ctx)
	defer cancel()
	lock := &resourcelock.LeaseLock{
		LeaseMeta: metav1.ObjectMeta{Namespace: "kube-system", Name: r.scheduler}, Client: client.CoordinationV1(),
		LockConfig: resourcelock.ResourceLockConfig{Identity: fmt.Sprintf("%s-%d", r.name, r.lives)},
	}
	ran, started := make(chan struct{}), atomic.Bool{}
	elector, err := leaderelection.NewLeaderElector(leaderelection.LeaderElectionConfig{
		Lock: leadership.Of(ctx).Follow(lock, leaseDuration), LeaseDuration: leaseDuration, RenewDeadline: renewDeadline, RetryPeriod: retryPeriod,
		Callbacks: leaderelection.LeaderCallbacks{
			OnStartedLeading: func(ctx context.Context) {
				started.Store(true)
				defer close(ran)
				r.world.note("%s leads", r.name)
				sched.Run(ctx)
			},
			OnStoppedLeading: func() { cancel() },
		},
	})
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

// kill ends the process at once, and waits for its goroutines.
func (r *replica) kill() {
	r.connection.Close()
	r.cancel()
	<-r.ended
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
