package dra

import v1 "k8s.io/api/core/v1"

// DevicesHeld is the condition of a pod that waits while the scheduler holds devices for it, or for its group. Its message says where these
// are, how many are in use, and since when it waits.
const DevicesHeld v1.PodConditionType = "quartermaster-dra.github.io/DevicesHeld"
