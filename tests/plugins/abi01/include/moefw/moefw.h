/* moefw/moefw.h: all that a plugin needs. */
#ifndef MOEFW_MOEFW_H
#define MOEFW_MOEFW_H
#include <moefw/plugin.h>
#include <moefw/ops.h>
#endif
