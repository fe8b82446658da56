package fleet

import (
	"crypto/sha256"
	"fmt"

	"github.com/quartermaster-dra/quartermaster/test/builder"
)

// Slice returns the only slice of a pool; the caller must add the nodes that reach it.
func Slice(driver, pool string, devices ...*builder.DeviceBuilder) *builder.SliceBuilder {
	return builder.Slice(pool+"-"+driver).OfDriver(driver).InPool(pool, 1, 1).Devices(devices...)
}

// LocalSlice publishes the only slice of a pool whose devices belong to one
// node. As drivers do, the pool has the node's name.
func LocalSlice(driver, node string, devices ...*builder.DeviceBuilder) *builder.SliceBuilder {
	return Slice(driver, node, devices...).OnNode(node)
}

// numbered makes count devices with the indices from first on.
func numbered(first, count int, device func(index int) *builder.DeviceBuilder) []*builder.DeviceBuilder {
	devices := make([]*builder.DeviceBuilder, 0, count)
	for index := first; index < first+count; index++ {
		devices = append(devices, device(index))
	}
	return devices
}

// deviceUUID returns an identifier in UUID form that depends only on the prefix, pool and index.
func deviceUUID(prefix, pool string, index int) string {
	sum := sha256.Sum256(fmt.Appendf(nil, "%s/%s/%d", prefix, pool, index))
	return fmt.Sprintf("%s-%x-%x-%x-%x-%x", prefix, sum[0:4], sum[4:6], sum[6:8], sum[8:10], sum[10:16])
}
