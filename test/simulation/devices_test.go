package simulation

import (
	"fmt"
	"slices"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"
	resourceapi "k8s.io/api/resource/v1"
	"k8s.io/apimachinery/pkg/api/resource"
	"k8s.io/apimachinery/pkg/types"
	internal "k8s.io/kubernetes/pkg/apis/resource"
	conversion "k8s.io/kubernetes/pkg/apis/resource/v1"
	"k8s.io/kubernetes/pkg/apis/resource/validation"
	"k8s.io/utils/ptr"

	"github.com/quartermaster-dra/quartermaster/test/builder"
)

// TestObjectsAreValid: kube-apiserver would store what histories publish, ask for and select by.
func TestObjectsAreValid(t *testing.T) {
	for i := range 8 {
		slice := sliceOf(sharesDriver, "node-0", 0, 1, 1)
		for _, less := range []bool{true, false} {
			for _, alone := range []bool{true, false} {
				slice.Devices(shareOf(i, less, alone).Modify(func(device *resourceapi.Device) { device.Name = fmt.Sprintf("%s-%t-%t", device.Name, less, alone) }))
			}
		}
		requireValidSlice(t, slice.Obj())
	}
	for index := range partSlices {
		slice := sliceOf(partsDriver, "node-0", index, 1, partSlices)
		partsOfCard(slice, index, 0, true, "4", "")
		partsOfCard(slice, index, 1, true, "3", "half")
		requireValidSlice(t, slice.Obj())
	}
	kinds := claimKinds
	for _, further := range furtherKinds {
		kinds = append(kinds[:len(kinds):len(kinds)], further...)
	}
	for _, kind := range kinds {
		claim := builder.Unsaved(namespace, claimOf(kind.name).Obj())
		claim.Name = kind.name
		var into internal.ResourceClaim
		require.NoError(t, intoInternal(claim, &into))
		require.Empty(t, validation.ValidateResourceClaim(&into), "claim %s", kind.name)
	}
	for _, name := range []string{"gpu", "big", "share", "part"} {
		for _, expression := range append(selectorsOf(name), selectorOf(name)) {
			var into internal.DeviceClass
			require.NoError(t, conversion.Convert_v1_DeviceClass_To_resource_DeviceClass(builder.Class(name, expression), &into, nil))
			require.Empty(t, validation.ValidateDeviceClass(&into), "class %s", name)
		}
	}
}

func requireValidSlice(t *testing.T, slice *resourceapi.ResourceSlice) {
	t.Helper()
	var into internal.ResourceSlice
	require.NoError(t, conversion.Convert_v1_ResourceSlice_To_resource_ResourceSlice(slice, &into, nil))
	require.Empty(t, validation.ValidateResourceSlice(&into), "slice %s", slice.Name)
}

// allocated returns a stored claim that has devices of a pool for node-0. A device has a share ID and the memory that it consumes
// after slashes, or "admin".
func allocated(name, driver string, devices ...resourceapi.DeviceRequestAllocationResult) *object {
	claim := builder.Claim(name, builder.Request("r", "gpu"), builder.Request("a", "gpu").Admin()).Obj()
	claim.Status.Allocation = &resourceapi.AllocationResult{}
	for _, device := range devices {
		device.Driver, device.Pool = driver, "node-0"
		if device.Request == "" {
			device.Request = "r"
		}
		claim.Status.Allocation.Devices.Results = append(claim.Status.Allocation.Devices.Results, device)
	}
	fields, err := decode(encode(claim))
	if err != nil {
		panic(err)
	}
	return &object{fields: fields}
}

func device(name string) resourceapi.DeviceRequestAllocationResult {
	return resourceapi.DeviceRequestAllocationResult{Device: name}
}

func shareWith(name, id, memory string) resourceapi.DeviceRequestAllocationResult {
	return resourceapi.DeviceRequestAllocationResult{Device: name, ShareID: ptr.To(types.UID(id)), ConsumedCapacity: map[resourceapi.QualifiedName]resource.Quantity{"memory": resource.MustParse(memory)}}
}

func watched(name string) resourceapi.DeviceRequestAllocationResult {
	return resourceapi.DeviceRequestAllocationResult{Request: "a", Device: name, AdminAccess: ptr.To(true)}
}

// TestClashes: what is wrong is found, and only that.
func TestClashes(t *testing.T) {
	p := newPublished()
	p.add(sliceOf(driver, "node-0", 0, 1, 1).Devices(deviceOf(0), deviceOf(1)).Obj())
	p.add(sliceOf(sharesDriver, "node-0", 0, 1, 1).Devices(shareOf(2, false, false)).Obj())
	p.add(sliceOf(sharesDriver, "node-0", 0, 2, 1).Devices(shareOf(2, true, false)).Obj()) // It has less now.
	for index := range partSlices {
		slice := sliceOf(partsDriver, "node-0", index, 1, partSlices)
		partsOfCard(slice, index, 0, true, "4", "")
		p.add(slice.Obj())
	}
	for name, test := range map[string]struct {
		claim  *object
		others []*object
		finds  string
	}{
		"a device for one":               {allocated("a", driver, device("dev-0")), []*object{allocated("b", driver, device("dev-1"))}, ""},
		"a device for two":               {allocated("a", driver, device("dev-0")), []*object{allocated("b", driver, device("dev-0"))}, "device {gpu.example.com node-0 dev-0} is allocated to claims b and a"},
		"a device twice for one":         {allocated("a", driver, device("dev-0"), device("dev-0")), nil, "is allocated to claims a"},
		"a device that others clash for": {allocated("a", driver, device("dev-1")), []*object{allocated("b", driver, device("dev-0")), allocated("c", driver, device("dev-0"))}, ""},
		"a device with admin access":     {allocated("a", driver, watched("dev-0")), []*object{allocated("b", driver, device("dev-0")), allocated("c", driver, watched("dev-0"))}, ""},
		"shares":                         {allocated("a", sharesDriver, shareWith("share-2", "1", "4Gi")), []*object{allocated("b", sharesDriver, shareWith("share-2", "2", "4Gi"))}, ""},
		"shares with too much": {
			allocated("a", sharesDriver, shareWith("share-2", "1", "4Gi")), []*object{allocated("b", sharesDriver, shareWith("share-2", "2", "5Gi"))}, "has 8589934592 of memory; claims b and a consume 9663676416",
		},
		"the same share": {allocated("a", sharesDriver, shareWith("share-2", "1", "1Gi")), []*object{allocated("b", sharesDriver, shareWith("share-2", "1", "1Gi"))}, "share 1 of device {shares.example.com node-0 share-2} is allocated twice"},
		"a share of a device that one has alone": {
			allocated("a", sharesDriver, device("share-2")), []*object{allocated("b", sharesDriver, shareWith("share-2", "2", "1Gi"))}, "is allocated to claims b and a",
		},
		"parts":                {allocated("a", partsDriver, device("card-0-half-0")), []*object{allocated("b", partsDriver, device("card-0-half-1"))}, ""},
		"parts with too much":  {allocated("a", partsDriver, device("card-0-half-0")), []*object{allocated("b", partsDriver, device("card-0-half-1"), device("card-0-quarter-0"))}, "counter {parts.example.com node-0 card-0 "},
		"shares of one part":   {allocated("a", partsDriver, shareWith("card-0-shared", "1", "1Gi"), device("card-0-half-0")), []*object{allocated("b", partsDriver, shareWith("card-0-shared", "2", "1Gi"), device("card-0-quarter-0"))}, ""},
		"parts with admin use": {allocated("a", partsDriver, watched("card-0-whole")), []*object{allocated("b", partsDriver, device("card-0-whole"))}, ""},
	} {
		t.Run(name, func(t *testing.T) {
			found := p.clashes(test.claim, test.others)
			if test.finds == "" {
				require.Empty(t, found)
				return
			}
			require.NotEmpty(t, found)
			require.Contains(t, found[0].text, test.finds)
		})
	}
}

// TestMalformed: a claim has shares of devices that can be shared, and admin access where it asks for it.
func TestMalformed(t *testing.T) {
	p := newPublished()
	p.add(sliceOf(driver, "node-0", 0, 1, 1).Devices(deviceOf(0)).Obj())
	p.add(sliceOf(sharesDriver, "node-0", 0, 1, 1).Devices(shareOf(2, false, false)).Obj())
	asked, notAsked := watched("dev-0"), watched("dev-0")
	notAsked.Request = "r"
	for claim, finds := range map[*object]string{
		allocated("a", driver, device("dev-0"), asked):                 "",
		allocated("b", driver, notAsked):                               "admin access: true, and request r asks for that: false",
		allocated("c", driver, shareWith("dev-0", "1", "1Gi")):         "could ever be shared: false",
		allocated("d", sharesDriver, device("share-2")):                "could ever be shared: true",
		allocated("e", sharesDriver, shareWith("share-2", "1", "1Gi")): "",
		allocated("f", sharesDriver, resourceapi.DeviceRequestAllocationResult{Device: "share-2", ShareID: ptr.To(types.UID("1"))}): "consumes 0 of them",
	} {
		found := p.malformed(claimOfObject(claim))
		if finds == "" {
			require.Empty(t, found)
			continue
		}
		require.Contains(t, strings.Join(found, "; "), finds)
	}
}

// TestLaterThemes: histories without the themes that came later are as they were before.
func TestLaterThemes(t *testing.T) {
	texts, all, later := map[uint64]string{}, themes, laterThemes
	for seed := range uint64(40) {
		h := NewHistory(seed, 30, "")
		if !slices.ContainsFunc(later, func(theme theme) bool { return h.themes[theme.name] }) {
			texts[seed] = h.String()
		}
	}
	require.NotEmpty(t, texts)
	defer func() { themes, laterThemes = all, later }()
	themes, laterThemes = all[:len(all)-len(later)], nil
	for seed, text := range texts {
		require.Equal(t, NewHistory(seed, 30, "").String(), text)
	}
}
