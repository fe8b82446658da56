// Package hold plans which devices are kept for pods and groups that have waited for long and can evict nobody who has
// them: otherwise each device that becomes free goes to a small pod that fits.
//
//	end.go       when pods are expected to end
//	plan.go      who gets a hold: in the order of priority and waiting time, within bounds
//	place.go     where the pods of one holder will be: on the nodes that are expected to be free the soonest
//	backfill.go  who may use held devices meanwhile
//	booking.go   holds for pods that may not exist yet, at a time that package booking knows
//	registry.go  the present holds
//
// A plan depends only on objects of the API and on the time, so it is the same after a restart and in another process.
package hold
