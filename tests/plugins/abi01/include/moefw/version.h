/* moefw/version.h: the version of moefw that these headers belong to. Written by configure. */
#ifndef MOEFW_VERSION_H
#define MOEFW_VERSION_H

#define MOEFW_VERSION_MAJOR 0
#define MOEFW_VERSION_MINOR 1
#define MOEFW_VERSION_PATCH 0
#define MOEFW_VERSION "0.1.0"

#endif
