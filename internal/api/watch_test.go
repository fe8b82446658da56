package api

import (
	"encoding/json"
	"errors"
	"testing"

	"github.com/stretchr/testify/require"
	resourceapi "k8s.io/api/resource/v1"
	resourcev1beta1 "k8s.io/api/resource/v1beta1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/watch"

	"github.com/quartermaster-dra/quartermaster/internal/api/v1alpha3"
)

func oldClaim(version string) *resourcev1beta1.ResourceClaim {
	return &resourcev1beta1.ResourceClaim{ObjectMeta: metav1.ObjectMeta{Name: "gpus", ResourceVersion: version}}
}

func toClaim(old *resourcev1beta1.ResourceClaim) (*resourceapi.ResourceClaim, error) {
	return convert[resourceapi.ResourceClaim](old)
}

func TestWatchConverts(t *testing.T) {
	t.Parallel()
	source := watch.NewFake()
	w := newConvertedWatch(source, toClaim)
	defer w.Stop()
	expired := apierrors.NewResourceExpired("too old").Status()
	go func() {
		source.Add(oldClaim("1"))
		source.Modify(oldClaim("2"))
		source.Delete(oldClaim("3"))
		source.Action(watch.Bookmark, oldClaim("4"))
		source.Error(&expired)
		source.Stop()
	}()
	for i, kind := range []watch.EventType{watch.Added, watch.Modified, watch.Deleted, watch.Bookmark} {
		event := <-w.ResultChan()
		require.Equal(t, kind, event.Type)
		require.IsType(t, &resourceapi.ResourceClaim{}, event.Object)
		require.Equal(t, string(rune('1'+i)), event.Object.(*resourceapi.ResourceClaim).ResourceVersion)
	}
	require.Equal(t, watch.Event{Type: watch.Error, Object: &expired}, <-w.ResultChan())
	_, open := <-w.ResultChan()
	require.False(t, open, "the end of the source is the end")
}

// A watch can be stopped while an event has not been read.
func TestWatchStops(t *testing.T) {
	t.Parallel()
	source := watch.NewFakeWithChanSize(2, false)
	w := newConvertedWatch(source, toClaim)
	source.Add(oldClaim("1"))
	source.Add(oldClaim("2"))
	w.Stop()
	w.Stop()
	for range w.ResultChan() {
	}
	require.True(t, source.IsStopped())
}

// What cannot be converted is not left out in silence.
func TestWatchTellsErrors(t *testing.T) {
	t.Parallel()
	source := watch.NewFakeWithChanSize(1, false)
	w := newConvertedWatch(source, func(*resourcev1beta1.ResourceClaim) (*resourceapi.ResourceClaim, error) {
		return nil, errors.New("broken")
	})
	defer w.Stop()
	source.Add(oldClaim("1"))
	event := <-w.ResultChan()
	require.Equal(t, watch.Error, event.Type)
	require.True(t, apierrors.IsInternalError(apierrors.FromObject(event.Object)))
}

func TestAlphaRules(t *testing.T) {
	t.Parallel()
	for name, tc := range map[string]struct {
		selector string
		want     *resourceapi.DeviceTaintSelector
	}{
		"all devices":             {selector: `"deviceSelector": {},`, want: &resourceapi.DeviceTaintSelector{}},
		"no selector, no devices": {},
		"by name": {
			selector: `"deviceSelector": {"driver": "d", "pool": "p", "device": "x"},`,
			want:     &resourceapi.DeviceTaintSelector{Driver: ptrTo("d"), Pool: ptrTo("p"), Device: ptrTo("x")},
		},
		"by class":       {selector: `"deviceSelector": {"driver": "d", "deviceClassName": "gpus"},`},
		"by expressions": {selector: `"deviceSelector": {"selectors": [{"cel": {"expression": "true"}}]},`},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			rule := &v1alpha3.DeviceTaintRule{}
			require.NoError(t, json.Unmarshal([]byte(`{"metadata": {"name": "rule", "resourceVersion": "7"},
				"spec": {`+tc.selector+`"taint": {"key": "example.com/broken", "effect": "NoExecute", "timeAdded": "2026-01-02T03:04:05Z"}}}`), rule))
			got, err := convert[resourceapi.DeviceTaintRule](rule)
			require.NoError(t, err)
			require.Equal(t, tc.want, got.Spec.DeviceSelector)
			require.Equal(t, "rule", got.Name)
			require.Equal(t, "7", got.ResourceVersion)
			require.Equal(t, resourceapi.DeviceTaintEffectNoExecute, got.Spec.Taint.Effect)
			require.Equal(t, 2026, got.Spec.Taint.TimeAdded.UTC().Year())
			_, err = convert[v1alpha3.DeviceTaintRule](got)
			require.ErrorContains(t, err, `asked to write "rule" of devicetaintrules; the API server has them in version v1alpha3`)
		})
	}
}
