package informer

import (
	"fmt"
	"testing"

	"github.com/stretchr/testify/require"
	v1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/client-go/tools/cache"

	"github.com/quartermaster-dra/quartermaster/test/builder"
)

// TestFollow: each kind of event that an informer has.
func TestFollow(t *testing.T) {
	t.Parallel()
	pod := func(uid, version string) *v1.Pod {
		return &v1.Pod{ObjectMeta: metav1.ObjectMeta{Name: "p", UID: types.UID(uid), ResourceVersion: version}}
	}
	var told []string
	say := func(pod *v1.Pod) string {
		if pod == nil {
			return "none"
		}
		return string(pod.UID) + pod.ResourceVersion
	}
	h := &builder.Informer{}
	_, err := Follow(h, func(e Event[v1.Pod]) {
		told = append(told, fmt.Sprintf("%s to %s, latest %s, initial %t, missed %t", say(e.Before), say(e.After), say(e.Latest()), e.Initial, e.Missed))
	})
	require.NoError(t, err)
	for _, test := range []struct {
		event func()
		want  []string
	}{
		{func() { h.OnAdd(pod("a", "1"), true) }, []string{"none to a1, latest a1, initial true, missed false"}},
		{func() { h.OnAdd(pod("a", "1"), false) }, []string{"none to a1, latest a1, initial false, missed false"}},
		{func() { h.OnUpdate(pod("a", "1"), pod("a", "2")) }, []string{"a1 to a2, latest a2, initial false, missed false"}},
		{func() { h.OnUpdate(pod("a", "1"), pod("b", "2")) }, []string{
			"a1 to none, latest a1, initial false, missed true", "none to b2, latest b2, initial false, missed false",
		}},
		{func() { h.OnDelete(pod("a", "2")) }, []string{"a2 to none, latest a2, initial false, missed false"}},
		{func() { h.OnDelete(cache.DeletedFinalStateUnknown{Key: "p", Obj: pod("a", "1")}) }, []string{"a1 to none, latest a1, initial false, missed true"}},
		{func() { h.OnDelete(cache.DeletedFinalStateUnknown{Key: "p"}) }, nil},
		{func() { h.OnAdd("something else", false) }, nil},
	} {
		told = nil
		test.event()
		require.Equal(t, test.want, told)
	}
}
