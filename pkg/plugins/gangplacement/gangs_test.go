package gangplacement

import (
	"testing"
	"time"

	"github.com/stretchr/testify/require"
	v1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/client-go/informers"
	"k8s.io/client-go/kubernetes/fake"
	clocktesting "k8s.io/utils/clock/testing"
	"sigs.k8s.io/scheduler-plugins/apis/scheduling/v1alpha1"

	"github.com/quartermaster-dra/quartermaster/internal/gang/crd"
	"github.com/quartermaster-dra/quartermaster/test/builder"
)

var began = time.Date(2026, 1, 1, 0, 0, 0, 0, time.UTC)

// member returns a pod of a gang that was created a number of seconds after the start.
func member(name, gang string, seconds int) *v1.Pod {
	pod := builder.Pod(name)
	pod.CreationTimestamp = metav1.NewTime(after(seconds))
	if gang != "" {
		pod.Labels = map[string]string{v1alpha1.PodGroupLabel: gang}
	}
	return pod
}

func after(seconds int) time.Time { return began.Add(time.Duration(seconds) * time.Second) }

func gangs(t *testing.T) (*Gangs, *clocktesting.FakeClock) {
	t.Helper()
	clock := clocktesting.NewFakeClock(began)
	informer := informers.NewSharedInformerFactory(fake.NewClientset(), 0).Core().V1().Pods().Informer()
	g, err := Follow(informer, clock)
	require.NoError(t, err)
	go informer.Run(t.Context().Done())
	return g, clock
}

// The start time is the earliest creation time until the gang is compared, and fixed from then on.
func TestSince(t *testing.T) {
	t.Parallel()
	g, _ := gangs(t)
	older, newer, oldest := member("older", "a", 5), member("newer", "a", 7), member("oldest", "a", 1)
	g.change(nil, newer)
	g.change(nil, older)
	require.Equal(t, after(5), g.Since(newer))
	g.change(nil, oldest)
	require.Equal(t, after(5), g.Since(oldest), "it may be in the queue already")
	g.change(older, nil)
	require.Equal(t, after(5), g.Since(newer))

	require.Equal(t, after(9), g.Since(member("other", "b", 9)), "not told of yet")
	elsewhere := member("elsewhere", "a", 3)
	elsewhere.Namespace = "another"
	require.Equal(t, after(3), g.Since(elsewhere))
}

// A gang is forgotten when it has had no pods for some time, and no sooner.
func TestForget(t *testing.T) {
	t.Parallel()
	g, clock := gangs(t)
	first, second, other := member("first", "a", 5), member("second", "a", 50), member("other", "b", 0)
	g.change(nil, first)
	require.Equal(t, after(5), g.Since(first))
	g.change(first, nil)
	clock.Step(rememberedFor - time.Second)
	g.change(nil, other)
	require.Equal(t, after(5), g.Since(second), "the queue may not have been told yet")

	g.change(nil, second) // The gang has a pod again, and loses it once more.
	clock.Step(2 * time.Second)
	g.change(second, nil)
	g.change(other, nil)
	require.Equal(t, after(5), g.Since(second))

	clock.Step(rememberedFor)
	g.change(nil, other)
	require.Len(t, g.known, 1, "no longer gang a, and b again")
	require.Empty(t, g.gone)
	require.Equal(t, after(50), g.Since(second))
}

// A gang that was compared but never seen by the handler is forgotten as well.
func TestForgetUnknown(t *testing.T) {
	t.Parallel()
	g, clock := gangs(t)
	g.Since(member("gone", "a", 5))
	clock.Step(rememberedFor)
	g.change(nil, member("other", "b", 0))
	require.Len(t, g.known, 1)
}

// Pods without the label are ignored; a pod may change its gang.
func TestLabels(t *testing.T) {
	t.Parallel()
	g, clock := gangs(t)
	alone, before, moved := member("pod", "", 4), member("pod", "a", 4), member("pod", "b", 4)
	g.change(nil, alone)
	require.Empty(t, g.known)
	g.change(alone, before)
	g.change(before, before.DeepCopy())
	g.change(before, moved)
	clock.Step(rememberedFor)
	g.change(moved, alone)
	require.Len(t, g.known, 1)
	require.Equal(t, after(4), g.Since(moved))
}

// The informer also reports the pods that existed before it started.
func TestFollow(t *testing.T) {
	t.Parallel()
	pod := member("pod", "a", 0)
	client := fake.NewClientset(member("early", "a", 3), member("late", "a", 8))
	factory := informers.NewSharedInformerFactory(client, 0)
	g, err := Follow(factory.Core().V1().Pods().Informer(), clocktesting.NewFakeClock(began))
	require.NoError(t, err)
	factory.Start(t.Context().Done())
	require.Equal(t, after(3), g.Since(member("late", "a", 8)), "it waits for what is there at the start")
	require.Equal(t, 2, g.known[crd.KeyOf(pod)].pods)
}
