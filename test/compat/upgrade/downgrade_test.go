package upgrade

import (
	"os"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/quartermaster-dra/quartermaster/internal/api"
	"github.com/quartermaster-dra/quartermaster/test/builder"
	"github.com/quartermaster-dra/quartermaster/test/controlplane"
	"github.com/quartermaster-dra/quartermaster/test/harness"
)

// droppedFields is what a pod is told whose allocation the server has not stored as it was sent.
const droppedFields = "stored it without"

// oldestDowngrade is the oldest minor release that is gone back to.
const oldestDowngrade = 32

// TestDowngradesByOne: a release is replaced by the one before, which finds pods that run with
// claims, and others that wait. The scheduler lives through it, or is started again where that is asked
// for; then it is restarted on the older release. Nothing is handed out twice, and what
// becomes free is used.
func TestDowngradesByOne(t *testing.T) {
	releases := strings.Fields(os.Getenv("QUARTERMASTER_COMPAT_UPGRADE"))
	if len(releases) == 0 {
		t.Skip("this needs the control planes of older releases; run make test-compat")
	}
	releases = append(releases, current)
	pairs := 0
	for i, older := range releases[:len(releases)-1] {
		newer := releases[i+1]
		if minorOf(t, older) < oldestDowngrade || minorOf(t, newer) != minorOf(t, older)+1 {
			continue
		}
		pairs++
		t.Run(newer+" to "+older, func(t *testing.T) { testDowngrade(t, newer, older) })
	}
	if pairs == 0 {
		t.Skipf("no two of the releases %v follow each other, from 1.%d on", releases, oldestDowngrade)
	}
}

// downgrade is a namespace that has seen both releases.
type downgrade struct {
	newer, older uint
	dir          string
	scheduler    *harness.Scheduler
	space        harness.Space
}

func testDowngrade(t *testing.T, newer, older string) {
	d := &downgrade{newer: minorOf(t, newer), older: minorOf(t, older), dir: t.TempDir()}
	t.Cleanup(func() {
		if d.scheduler != nil {
			require.NoError(t, d.scheduler.Stop())
		}
	})
	before := step{current, controlplane.Options{}, []api.Version{api.V1}}
	if newer != current {
		before, _ = stepOf(t, newer)
	}
	after, _ := stepOf(t, older)
	d.run(t, before, d.before)
	if !t.Failed() {
		d.run(t, after, d.after)
	}
}

// run has a control plane for a while.
func (d *downgrade) run(t *testing.T, step step, use func(*testing.T, *harness.Cluster)) {
	t.Helper()
	t.Run("on "+step.name, func(t *testing.T) {
		step.options.Dir = d.dir
		cluster, err := harness.Start(t.Context(), harness.Options{Name: "downgrade", ControlPlane: step.options})
		require.NoError(t, err)
		t.Cleanup(func() {
			require.NoError(t, cluster.Stop())
			if t.Failed() {
				t.Log("logs are in", cluster.Logs)
			}
		})
		use(t, cluster)
		require.NoError(t, d.scheduler.Err(), "the scheduler has to live through the downgrade")
		requireVersion(t, d.scheduler, step.claims)
	})
}

// sharesByDefault reports whether a release shares the capacity of devices without being asked to.
func sharesByDefault(minor uint) bool { return minor >= 36 }

// before has pods use devices, and others wait for them.
func (d *downgrade) before(t *testing.T, cluster *harness.Cluster) {
	var err error
	d.scheduler, err = cluster.StartScheduler(t.Context(), harness.SchedulerOptions{Name: "downgrade"})
	require.NoError(t, err)
	s := cluster.NewSpace(t, "downgrade", d.scheduler.Profile, 2)
	s.Log, s.Patience = d.scheduler.LogFile(), upgradePatience
	d.space = *s
	s.Devices(0, harness.Numbered(3)...)
	s.ClaimAndPod("holder", s.Want(2))
	s.Running("holder")
	s.Create(s.Pod("joins", builder.Uses("holder")))
	s.Running("joins")
	s.ClaimAndPod("late", s.Want(2))
	s.Waiting("late", "claim "+s.Name+"/late", "held by")
	if sharesByDefault(d.newer) {
		s.Devices(1, builder.Device("nic").Shared().Capacity("bandwidth", "10G"))
		s.ClaimAndPod("share", d.share(s))
		s.Running("share")
		s.ClaimAndPod("late-share", d.share(s))
		s.Waiting("late-share", "too little capacity left (bandwidth:")
	}
}

// share is more than half of what the device has.
func (d *downgrade) share(s *harness.Space) *builder.RequestBuilder {
	return s.Want(1).Capacity("bandwidth", "6G")
}

// after goes on where before has ended.
func (d *downgrade) after(t *testing.T, cluster *harness.Cluster) {
	s := d.space
	s.T, s.Cluster = t, cluster
	if d.newer == minorOf(t, current) { // It has everything in v1, and the older one has not.
		require.NoError(t, d.scheduler.Stop())
		require.NoError(t, d.scheduler.Restart(t.Context()))
	}
	s.Running("holder", "joins")
	require.Equal(t, []string{s.Node(0) + "/gpu-0", s.Node(0) + "/gpu-1"}, s.DeviceNames("holder"))
	// What is free is handed out, and nothing that has a holder.
	s.ClaimAndPod("one", s.Want(1))
	s.Running("one")
	require.Equal(t, []string{s.Node(0) + "/gpu-2"}, s.DeviceNames("one"))
	s.Waiting("late", "claim "+s.Name+"/late", "held by")
	s.Create(s.Pod("joins-later", builder.Uses("holder")))
	s.Running("joins-later")
	require.Len(t, s.LiveClaim("holder").Status.ReservedFor, 3)
	if sharesByDefault(d.newer) {
		d.afterShared(&s)
	}
	for _, pod := range []string{"holder", "joins", "joins-later"} {
		s.DeletePod(pod)
	}
	s.RunningSoon("late")
	s.EventuallyFree("holder")
	// A scheduler that starts here sees the same.
	require.NoError(t, d.scheduler.Kill())
	require.NoError(t, d.scheduler.Restart(t.Context()))
	s.ClaimAndPod("later", s.Want(1))
	s.Waiting("later", "claim "+s.Name+"/later", "held by")
	s.DeletePod("one")
	s.RunningSoon("later")
	require.Equal(t, []string{s.Node(0) + "/gpu-2"}, s.DeviceNames("later"))
	// CheckSettled would look at the order of writes as well, of which this cluster has not seen the first.
	require.NoError(t, cluster.Check(t.Context()))
}

// afterShared looks at shares that the newer release has made: they count on the older one as well. One that
// has the feature off by default keeps what claims from before ask for, and gives them shares; claims that are
// created there get none, and their pods are told.
func (d *downgrade) afterShared(s *harness.Space) {
	s.T.Helper()
	s.Running("share")
	require.NotNil(s.T, s.Results("share")[0].ShareID, "what is in use stays stored")
	s.Waiting("late-share", "claim "+s.Name+"/late-share")
	s.DeletePod("share")
	s.EventuallyFree("share")
	s.RunningSoon("late-share")
	require.NotNil(s.T, s.Results("late-share")[0].ShareID, "what a claim asked for before is still served")
	if sharesByDefault(d.older) {
		return
	}
	s.DeletePod("late-share")
	s.EventuallyFree("late-share")
	s.ClaimAndPod("new-share", d.share(s))
	s.Waiting("new-share", droppedFields)
	require.Nil(s.T, s.LiveClaim("new-share").Status.Allocation)
}
